#include "core/out_of_memory.h"

#include <c10/util/Exception.h>

#include <new>
#include <stdexcept>

#include "tests/support/test.h"

namespace hooked::out_of_memory_test {
namespace {

c10::Error of_torch(const std::string& text) { return {text, nullptr}; }

TEST(OutOfMemory, UnderstandsWhatLibTorchSays) {
  struct Said {
    std::string text;
    bool of_host;
    std::optional<std::uint64_t> needed;
  };
  for (const Said& said : {
           Said{"CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
                "which 3.21 GiB is free.",
                false, std::uint64_t{20} << 30},
           Said{"CUDA out of memory. Tried to allocate 2.50 MiB. GPU 1 has", false, 2'621'440},
           Said{"CUDA out of memory. Tried to allocate more than 1EB memory.", false, std::nullopt},
           Said{"DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes. "
                "Error code 12 (Cannot allocate memory)",
                true, std::uint64_t{1} << 52},
           Said{"CUDA error: out of memory\nCUDA kernel errors might be", false, std::nullopt},
           Said{"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", false,
                std::nullopt},
       }) {
    SCOPED_TRACE(said.text);
    const auto understood = out_of_memory(of_torch(said.text));
    ASSERT_TRUE(understood);
    EXPECT_EQ(understood->of_host, said.of_host);
    EXPECT_EQ(understood->needed, said.needed);
  }
}

TEST(OutOfMemory, KnowsLibTorchsOwnErrorOfTheHost) {
  try {
    at::empty({std::int64_t{1} << 52}, at::kByte);
    FAIL() << "there are four pebibytes";
  } catch (const c10::Error& error) {
    const auto said = out_of_memory(error);
    ASSERT_TRUE(said) << error.what_without_backtrace();
    EXPECT_TRUE(said->of_host);
    EXPECT_EQ(said->needed, std::uint64_t{1} << 52);
  }
}

TEST(OutOfMemory, KnowsTheClassWithoutWords) {
  try {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "HIP is full");
  } catch (const std::exception& error) {
    const auto said = out_of_memory(error);
    ASSERT_TRUE(said);
    EXPECT_FALSE(said->of_host);
    EXPECT_FALSE(said->needed);
  }
  const auto of_new = out_of_memory(std::bad_alloc());
  ASSERT_TRUE(of_new);
  EXPECT_TRUE(of_new->of_host);
}

TEST(OutOfMemory, IsNothingElse) {
  EXPECT_FALSE(out_of_memory(of_torch("The size of tensor a (3) must match the size of tensor b (4)")));
  EXPECT_FALSE(out_of_memory(std::runtime_error("CUDA out of memory")));  // somebody else's, such as a hook's
  EXPECT_FALSE(out_of_memory(MemoryError("run", "told already")));
  EXPECT_TRUE(tells_of_memory(MemoryError("run", "told already")));
  EXPECT_FALSE(tells_of_memory(std::runtime_error("CUDA out of memory")));
}

TEST(WithMemory, SaysWhatWasNeededAndWhatToDo) {
  EXPECT_EQ(text_thrown_by<MemoryError>([] {
              with_memory({.where = "run", .cure = "give fewer rows"}, []() -> int {
                throw of_torch("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has");
              });
            }),
            "[run] the device's memory ran out; expected room for another 20.0 GiB; give fewer rows");
  EXPECT_EQ(text_thrown_by<MemoryError>([] {
              with_memory({.where = "run", .cure = "give fewer rows", .devices = {at::kCPU}},
                          [] { throw std::bad_alloc(); });
            }),
            "[run] the host's memory ran out; give fewer rows");
}

TEST(WithMemory, TriesAgainOnceWhereRoomWasMade) {
  int calls = 0, made_room = 0;
  const MemoryUse use{.where = "run", .cure = "give fewer rows", .make_room = [&](const OutOfMemory& said) {
                        EXPECT_TRUE(said.of_host);
                        ++made_room;
                        return true;
                      }};
  EXPECT_EQ(with_memory(use,
                        [&] {
                          if (++calls == 1) throw std::bad_alloc();
                          return 7;
                        }),
            7);
  EXPECT_EQ(calls, 2);
  EXPECT_THROW(with_memory(use,
                           [&] {
                             ++calls;
                             throw std::bad_alloc();
                           }),
               MemoryError);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(made_room, 2);
}

TEST(WithMemory, DoesNotTryAgainWhereThereIsNoRoom) {
  int calls = 0;
  const MemoryUse use{
      .where = "run", .cure = "give fewer rows", .make_room = [](const OutOfMemory&) { return false; }};
  EXPECT_THROW(with_memory(use,
                           [&] {
                             ++calls;
                             throw std::bad_alloc();
                           }),
               MemoryError);
  EXPECT_EQ(calls, 1);
}

TEST(WithMemory, LetsOtherErrorsThrough) {
  const MemoryUse use{.where = "run", .cure = "give fewer rows"};
  EXPECT_THROW(with_memory(use, [] { throw ShapeError("tokens", "none"); }), ShapeError);
  EXPECT_THROW(with_memory(use, [] { throw 5; }), int);
  EXPECT_EQ(
      text_thrown_by<MemoryError>([&] { with_memory(use, [] { throw MemoryError("generate", "told"); }); }),
      "[generate] told");
}

}  // namespace
}  // namespace hooked::out_of_memory_test
