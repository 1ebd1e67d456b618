// Opens the device `cuda` and prints it, or the error: device_test runs it with a fake of LibTorch's
// CUDA library. With the argument `gradients` something has asked LibTorch for CUDA before.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <iostream>
#include <string_view>

#include "hooked/core/error.h"
#include "loading/fill/device.h"

int main(int count, char** arguments) {
  try {
    if (count > 1 && std::string_view(arguments[1]) == "gradients") {
      at::ones({2}).requires_grad_(true).sum().backward();
    }
    std::cout << hooked::open_device("cuda").str() << '\n';
  } catch (const hooked::Error& error) {
    std::cout << error.what() << '\n';
  }
}
