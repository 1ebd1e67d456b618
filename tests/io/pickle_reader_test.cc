#include <fmt/format.h>

#include "io/pickle/pickle_document.h"
#include "io/pickle/zip_limits.h"
#include "tests/io/file_bytes.h"
#include "tests/support/pickle_writer.h"

namespace hooked::pickle_reader_test {
namespace {

using Kind = PickleKind;
using Limits = ZipCheckpointLimits;

PickleDocument read(std::string_view value) { return read_pickle(pickle_of(value), "f"); }

void refused(std::string_view value, std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(fmt::format("{:.60}", value));
  expect_refused<CheckpointError>([&] { read(value); }, "f", parts);
}

std::string floats(std::int64_t numel) { return pickled_storage("FloatStorage", "0", pickled(numel)); }

std::string number64(std::uint64_t value) { return pickled_bytes_of(value, 8); }

TEST(PickleReader, Constants) {
  const auto document = read(
      "(N\x88\x89J\xFE\xFF\xFF\xFFK\xFFM\xFF\xFF\x8A" + std::string("\0\x8A\x01\xFF\x8A\x02\x00\x80", 8) +
      pickled(std::int64_t{-5}) + "G" + std::string("\x3F\xF8\0\0\0\0\0\0", 8) + "\x8C\x02hiX" +
      pickled_bytes_of(2, 4) + "\xC3\xA9" + "\x8D" + number64(1) + "zU\x01p" + "T" + pickled_bytes_of(1, 4) +
      "qC\x01\xFF" + "B" + pickled_bytes_of(1, 4) + "b\x8E" + number64(1) + "ct");
  ASSERT_EQ(document.root.kind, Kind::kTuple);
  const auto at = [&](std::size_t i) { return document.element(document.root, i); };
  EXPECT_EQ(at(0).kind, Kind::kNone);
  EXPECT_TRUE(at(1).boolean());
  EXPECT_EQ(at(2).kind, Kind::kBool);
  EXPECT_FALSE(at(2).boolean());
  const std::int64_t integers[] = {-2, 255, 65535, 0, -1, -32768, -5};
  for (std::size_t i = 0; i < std::size(integers); ++i) EXPECT_EQ(at(3 + i).integer(), integers[i]) << i;
  EXPECT_EQ(at(10).real(), 1.5);
  const std::string_view texts[] = {"hi", "\xC3\xA9", "z", "p", "q", "\xFF", "b", "c"};
  for (std::size_t i = 0; i < std::size(texts); ++i) {
    EXPECT_EQ(document.text(at(11 + i)), texts[i]);
    EXPECT_EQ(at(11 + i).kind, i < 5 ? Kind::kText : Kind::kBytes) << i;
  }
  EXPECT_EQ(document.root.size, 19U);
}

TEST(PickleReader, ContainersMemoAndStack) {
  // [1, (2,), {'k': itself}, {}, 3, 3] by every opcode that makes or fills a container or drops a value.
  const auto document = read("]q\x05(K\x01K\x02\x85}" + pickled("k") + "h\x05s" + "(dK\x09" + "0(N1(l0e" +
                             "K\x03\x94" + "aj" + pickled_bytes_of(6, 4) + "a");
  const auto& list = document.items(document.root);
  ASSERT_EQ(list.size(), 6U);
  EXPECT_EQ(list[1].kind, Kind::kTuple);
  EXPECT_EQ(document.items(list[2])[1].payload, document.root.payload);  // a list that holds itself
  EXPECT_EQ(document.items(list[3]).size(), 0U);                         // the dict of `(d`
  EXPECT_EQ(list[5].integer(), 3);
}

// Attacks that scanners of pickles collect. None is on the list of allowed names, so none has any effect.
TEST(PickleReader, EveryOtherGlobalIsRefusedByName) {
  const std::pair<const char*, const char*> bad[] = {
      {"os", "system"},
      {"posix", "system"},
      {"nt", "system"},
      {"builtins", "eval"},
      {"builtins", "exec"},
      {"builtins", "getattr"},
      {"builtins", "compile"},
      {"builtins", "__import__"},
      {"__builtin__", "eval"},
      {"subprocess", "Popen"},
      {"subprocess", "check_output"},
      {"runpy", "_run_code"},
      {"pty", "spawn"},
      {"socket", "create_connection"},
      {"webbrowser", "open"},
      {"httplib", "HTTPSConnection"},
      {"requests.api", "get"},
      {"aiohttp.client", "ClientSession"},
      {"shutil", "rmtree"},
      {"sys", "exit"},
      {"pickle", "loads"},
      {"_pickle", "loads"},
      {"bdb", "Bdb"},
      {"pdb", "Pdb"},
      {"asyncio", "run"},
      {"operator", "attrgetter"},
      {"functools", "partial"},
      {"importlib", "import_module"},
      {"pip", "main"},
      {"venv", "create"},
      {"timeit", "timeit"},
      {"code", "interact"},
      {"_codecs", "encode"},
      {"copyreg", "_reconstructor"},
      {"copy_reg", "_reconstructor"},
      {"numpy", "load"},
      {"numpy.testing._private.utils", "runstring"},
      {"numpy.core.multiarray", "scalar"},
      {"torch", "load"},
      {"torch.hub", "load"},
      {"torch.jit", "load"},
      {"torch.serialization", "load"},
      {"torch._dynamo.guards", "GuardBuilder.get"},
      {"torch.utils.bottleneck.__main__", "run_cprofile"},
      {"torch", "float32"},
      {"torch", "Size"},
      {"torch", "QInt8Storage"},
      {"torch", "ComplexFloatStorage"},
      {"torch.cuda", "FloatStorage"},
      {"torch._utils", "_rebuild_tensor"},
      {"torch._utils", "_rebuild_tensor_v3"},
      {"torch._utils", "_rebuild_parameter_with_state"},
      {"torch._tensor", "_rebuild_from_type_v2"},
      {"torch.nn.modules.linear", "Linear"},
      {"collections", "defaultdict"},
      {"collections", "OrderedDict.fromkeys"},
      {"collections", "OrderedDict.__init__.__globals__"},
      {"collections.OrderedDict", ""},
      {"", "collections OrderedDict"},
      {"Collections", "OrderedDict"},
      {"argparse", "Namespace"},
  };
  for (const auto& [module, name] : bad) {
    const auto full = fmt::format("the global '{}.{}' is not allowed", module, name);
    refused(pickled_global(module, name) + "(" + pickled("touch owned") + "tR", {full, "nothing was run"});
    refused(pickled(module) + pickled(name) + "\x93)R", {full, "data.pkl at byte"});
    // Through the memo, and with no call at all.
    refused(pickled(module) + "q\x01" + "0h\x01" + pickled(name) + "\x94" + "0h\x01h\x02\x93", {full});
    refused("(i" + std::string(module) + "\n" + name + "\n", {"the opcode INST is not allowed"});
  }
  refused(std::string("c\n\n"), {"the global '.'"});
  refused("cos\nsys\x1B[31mtem\n",
          {"\\x1b[31m"});  // escaped: a message must not reach the terminal as control codes
  refused("K\x01K\x02\x93", {"STACK_GLOBAL", "expected two texts"});
  refused("cos\nsystem", {"cut off"});
}

TEST(PickleReader, CallsOfAnythingElseAreRefused) {
  const auto dict = pickled_ordered_dict();
  refused("}" + std::string(")R"), {"this cannot be called", "got a dict"});
  refused(pickled("os.system") + ")R", {"this cannot be called", "'os.system'"});
  refused(pickled_global("torch", "FloatStorage") + ")R", {"this cannot be called", "torch.FloatStorage"});
  refused(dict + ")R", {"this cannot be called", "got a dict"});
  refused(pickled_global("collections", "OrderedDict") + "]R", {"a call's arguments", "a list"});
  refused(pickled_global("collections", "OrderedDict") + "N\x85R",
          {"OrderedDict is called with arguments", "expected none, got 1"});
  refused("}}" + pickled("x") + "K\x01sb", {"BUILD", "collections.OrderedDict", "a dict"});
  refused(dict + "Nb", {"BUILD's attributes", "None"});
  refused(dict + pickled_dict({{"__class__", "N"}}) + "b", {"'__class__'", "'_metadata'"});
  refused(dict + pickled_dict({{"_metadata", "N"}, {"__setitem__", "N"}}) + "b", {"'__setitem__'"});
  EXPECT_EQ(read(dict + pickled_dict({{"_metadata", "}"}}) + "b").root.kind, Kind::kDict);
  const auto tensor = pickled_tensor(floats(1), {.sizes = {1}, .strides = {1}});
  refused(tensor + "}b", {"BUILD", "a tensor"});
  const std::pair<std::string, std::string_view> opcodes[] = {
      {")\x81", "NEWOBJ"},           {"\x92", "NEWOBJ_EX"}, {"o", "OBJ"},           {"\x82\x01", "EXT1"},
      {"\x83\x01", "EXT2"},          {"\x84\x01", "EXT4"},  {"2", "DUP"},           {"\x8F", "EMPTY_SET"},
      {"\x90", "ADDITEMS"},          {"\x91", "FROZENSET"}, {"\x96", "BYTEARRAY8"}, {"\x97", "NEXT_BUFFER"},
      {"\x98", "READONLY_BUFFER"},   {"P0\n", "PERSID"},    {"\x80\x02", "PROTO"},  {"\xFF", "0xFF"},
      {std::string(1, '\0'), "0x00"}};
  for (const auto& [bytes, name] : opcodes) {
    refused("}" + bytes,
            {fmt::format("the opcode {} is not allowed", name), "data.pkl at byte", "nothing was run"});
  }
}

TEST(PickleReader, MalformedPicklesAreRefused) {
  const auto whole = [](std::string bytes, std::string_view part) {
    expect_refused<CheckpointError>([&] { read_pickle(std::move(bytes), "f"); }, "f", {part});
  };
  whole("", "expected it to begin with PROTO");
  whole("\x80", "expected it to begin with PROTO");
  whole("}.", "expected it to begin with PROTO");
  whole("(dp0\n.", "expected it to begin with PROTO");  // protocol 0
  whole("\x80\x01}.", "expected 2 to 5, got 1");
  whole("\x80\x06}.", "expected 2 to 5, got 6");
  whole("\x80\x02}", "cut off");
  whole("\x80\x02}.}", "expected none, got 1");
  whole("\x80\x02.", "too few values");
  whole("\x80\x02}}.", "expected one, got 2");
  whole("\x80\x02(.", "a mark");
  // Text opcodes with numbers of any length.
  for (const std::string opcode : {"I", "L", "F", "S", "V", "g", "p"}) {
    refused(opcode + std::string(100'000, '9') + "\n", {"the opcode", "is not allowed"});
  }
  refused("}j\xFF\xFF\xFF\xFF", {"nothing at index 4294967295"});
  refused("}h\x00", {"nothing at index"});
  refused("}r\xFF\xFF\xFF\xFF", {"memo index is too large", "4294967295"});
  refused("q\x01", {"too few values"});
  refused("(q\x01", {"a mark"});
  refused("0", {"too few values"});
  refused("K\x01t", {"a mark is missing"});
  refused("1", {"a mark is missing"});
  refused("(e", {"expected a container"});
  refused("((e", {"expected a container"});
  refused(
      "}(K\x01K\x02"
      "e",
      {"no list", "a dict"});
  refused("](K\x01K\x02u", {"no dict", "a list"});
  refused("}(K\x01u", {"a key has no value"});
  refused(
      "(K\x01"
      "d",
      {"a key has no value"});
  refused("K\x01\x86", {"too few values"});
  refused("(K\x01\x86", {"a mark"});
  refused("}]K\x01s", {"a dict's key", "a list"});
  refused("}}K\x01s", {"a dict's key", "a dict"});
  refused("}K\x01s", {"too few values"});
  refused(
      "K\x01"
      "a",
      {"too few values"});
  refused("\x95" + number64(~std::uint64_t{0}) + "}", {"cut off", "18446744073709551615"});
  refused("X\xFF\xFF\xFF\xFF", {"cut off", "4294967295"});
  refused("\x8D" + number64(std::uint64_t{1} << 63), {"cut off"});
  refused("\x8E" + number64(~std::uint64_t{0}), {"cut off"});
  refused("T\xFF\xFF\xFF\xFF", {"cut off"});
  refused("\x8A\x09" + std::string(9, '\1'), {"at most 8 bytes, got 9"});
  refused("\x8B" + pickled_bytes_of(1 << 20, 4) + std::string(1 << 20, '\1'), {"at most 8 bytes"});
  refused("G\x00", {"cut off"});
  refused("X" + pickled_bytes_of(2, 4) + "\xC3(", {"not UTF-8"});
}

TEST(PickleReader, SettingItemsOrAttributesOnTensorsIsRefused) {
  const auto tensor = pickled_tensor(floats(1), {.sizes = {1}, .strides = {1}});
  refused(tensor + "K\x01K\x02s", {"items are set on no dict", "a tensor"});
  refused(tensor + "(K\x01K\x02u", {"items are set on no dict", "a tensor"});
  refused(tensor +
              "K\x01"
              "a",
          {"appended to no list", "a tensor"});
  refused(floats(1) +
              "(K\x01"
              "e",
          {"appended to no list", "a storage"});
  refused(")K\x01K\x02s", {"items are set on no dict", "a tuple"});
  refused(pickled_global("collections", "OrderedDict") + "K\x01K\x02s", {"the global"});
}

TEST(PickleReader, MalformedStoragesAreRefused) {
  const auto named = [](const std::string& numel) { return pickled_storage("FloatStorage", "0", numel); };
  refused(named(pickled(std::int64_t{-1})), {"numel", "at least 0, got -1"});
  refused(named(pickled(std::int64_t{0x4000000000000001})), {"numel overflows", "4611686018427387905"});
  refused(named("\x88"), {"numel", "True"});
  refused(named("G" + std::string(8, '\0')), {"numel", "a real number"});
  refused(pickled_tuple({}) + "Q", {"a persistent id is malformed"});
  refused(pickled("storage") + "Q", {"a persistent id is malformed"});
  const auto type = pickled_global("torch", "FloatStorage");
  const auto id = [](std::vector<std::string> parts) { return pickled_tuple(parts) + "Q"; };
  const auto one = pickled(std::int64_t{1});
  refused(id({pickled("module"), type, pickled("0"), pickled("cpu"), one}), {"another kind", "'module'"});
  refused(id({pickled("storage"), pickled("FloatStorage"), pickled("0"), pickled("cpu"), one}),
          {"a storage's type"});
  refused(id({pickled("storage"), pickled_global("collections", "OrderedDict"), pickled("0"), pickled("cpu"),
              one}),
          {"a storage's type", "collections.OrderedDict"});
  refused(id({pickled("storage"), type, one, pickled("cpu"), one}), {"a storage's key"});
  refused(id({pickled("storage"), type, pickled("0"), "N", one}), {"a storage's location"});
  refused(id({pickled("storage"), type, pickled("0"), pickled("cpu"), one, "N"}), {"malformed"});
}

TEST(PickleReader, TensorsMustStayInTheirStorage) {
  const auto view = [](PickledView view) { return pickled_tensor(floats(6), view); };
  constexpr auto kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(read(view({.sizes = {2, 3}, .strides = {3, 1}})).tensors.size(), 1U);
  EXPECT_EQ(read(view({.offset = 5, .sizes = {2, 1}, .strides = {0, kHuge}})).tensors.size(), 1U);
  EXPECT_EQ(read(view({.offset = 6, .sizes = {0, 3}, .strides = {3, 1}})).tensors.size(), 1U);
  const PickledView outside[] = {
      {.offset = 1, .sizes = {2, 3}, .strides = {3, 1}},
      {.sizes = {2, 3}, .strides = {4, 1}},
      {.sizes = {7}, .strides = {1}},
      {.offset = 6, .sizes = {}, .strides = {}},
      {.offset = -1, .sizes = {1}, .strides = {1}},
      {.offset = 7, .sizes = {0}, .strides = {1}},
      {.offset = std::numeric_limits<std::int64_t>::max(), .sizes = {1}, .strides = {1}},
      {.offset = std::numeric_limits<std::int64_t>::min(), .sizes = {1}, .strides = {1}}};
  for (const auto& bad : outside) refused(view(bad), {"reaches outside its storage", "6 elements"});
  const PickledView overflowing[] = {{.sizes = {3}, .strides = {kHuge}},
                                     {.sizes = {2, 2}, .strides = {kHuge, kHuge}},
                                     {.sizes = {kHuge}, .strides = {0}},
                                     {.sizes = {kHuge, kHuge, 0}, .strides = {0, 0, 0}},
                                     {.sizes = {5, kHuge}, .strides = {1, 1}}};
  for (const auto& bad : overflowing) refused(view(bad), {"overflows"});
  refused(view({.sizes = {2}, .strides = {-1}}), {"stride is not allowed", "got -1"});
  refused(view({.sizes = {-2}, .strides = {1}}), {"size or stride is not allowed", "got -2"});
  refused(view({.sizes = {2}, .strides = {}}), {"1 sizes and 0 strides"});
  refused(view({.sizes = {}, .strides = {1}}), {"0 sizes and 1 strides"});
  const std::vector<std::int64_t> ones(Limits::kRank, 1);
  EXPECT_EQ(read(view({.sizes = ones, .strides = ones})).tensors.size(), 1U);
  const std::vector<std::int64_t> more(Limits::kRank + 1, 1);
  refused(view({.sizes = more, .strides = more}), {"9 sizes", "at most 8"});
}

TEST(PickleReader, ArgumentsOfTheAllowedFunctions) {
  const auto rebuild = [](std::vector<std::string> arguments) {
    return pickled_global("torch._utils", "_rebuild_tensor_v2") + pickled_tuple(arguments) + "R";
  };
  const auto zero = pickled(std::int64_t{0});
  const auto hooks = pickled_ordered_dict();
  const std::vector<std::string> good = {floats(1), zero, ")", ")", "\x89", hooks};
  EXPECT_EQ(read(rebuild(good)).tensors.size(), 1U);
  const std::pair<std::size_t, std::string_view> names[] = {{0, "storage"},       {1, "storage_offset"},
                                                            {2, "size"},          {3, "stride"},
                                                            {4, "requires_grad"}, {5, "backward_hooks"}};
  for (const auto& [index, name] : names) {
    auto arguments = good;
    arguments[index] = "N";
    refused(rebuild(arguments),
            {fmt::format("_rebuild_tensor_v2's {} is of a wrong kind", name), "got None"});
  }
  auto hooked_up = good;
  hooked_up[5] = pickled_ordered_dict() + "K\x01K\x02s";
  refused(rebuild(hooked_up), {"backward_hooks are not empty"});
  refused(rebuild({}), {"expected 6 or 7, got 0"});
  auto seven = good;
  seven.push_back("}");
  EXPECT_EQ(read(rebuild(seven)).tensors.size(), 1U);
  seven[6] = pickled_dict({{"neg", "\x88"}});
  refused(rebuild(seven), {"metadata are not empty"});
  seven.push_back("N");
  refused(rebuild(seven), {"expected 6 or 7, got 8"});

  const auto parameter = [](std::vector<std::string> arguments) {
    return pickled_global("torch._utils", "_rebuild_parameter") + pickled_tuple(arguments) + "R";
  };
  EXPECT_EQ(read(parameter({rebuild(good), "\x88", hooks})).root.kind, Kind::kTensor);
  refused(parameter({rebuild(good), "\x88"}), {"expected 3, got 2"});
  refused(parameter({floats(1), "\x88", hooks}), {"_rebuild_parameter's data", "a storage"});
  refused(parameter({rebuild(good), "N", hooks}), {"requires_grad"});
  refused(parameter({rebuild(good), "\x88", "N"}), {"backward_hooks"});
}

TEST(PickleReader, LimitsAreExact) {
  const auto stack = [](std::size_t values) { return "(" + std::string(values - 1, 'N') + "t"; };
  EXPECT_EQ(read(stack(Limits::kStack)).root.size, Limits::kStack - 1);
  refused(stack(Limits::kStack + 1), {"the stack is too deep", "at most 65536"});

  const auto memo = [](std::uint64_t index) { return "}r" + pickled_bytes_of(index, 4); };
  EXPECT_EQ(read(memo(Limits::kMemo - 1)).root.kind, Kind::kDict);
  refused(memo(Limits::kMemo), {"a memo index is too large", "less than 1048576"});

  // The same storage and argument tuple again and again.
  const auto tensors = [](std::size_t count) {
    std::string bytes =
        "]" + pickled_global("torch._utils", "_rebuild_tensor_v2") + "q" + std::string(1, '\0') + "0" +
        pickled_tuple({floats(1), pickled(std::int64_t{0}), ")", ")", "\x89", pickled_ordered_dict()}) +
        "q\x01" + "0";
    for (std::size_t i = 0; i < count; ++i) bytes += std::string("h\0h\x01R0", 6);
    return bytes;
  };
  EXPECT_EQ(read(tensors(Limits::kTensors)).tensors.size(), Limits::kTensors);
  refused(tensors(Limits::kTensors + 1), {"too many tensors", "at most 100000"});

  // Limits on what is built: a list costs more than its opcode.
  const auto most = Limits::kBuiltBytes / (sizeof(PickledContainer) + 16);
  const auto lists = [](std::size_t count) {
    std::string bytes = "N";
    for (std::size_t i = 0; i < count; ++i) bytes += "]0";
    return bytes;
  };
  EXPECT_EQ(read(lists(most)).containers.size(), most);
  refused(lists(most + 1), {"too much memory", fmt::format("at most {} bytes", Limits::kBuiltBytes)});
  refused("]" +
              [] {
                std::string bytes;
                for (int i = 0; i < 2'000'000; ++i) bytes += "Na";
                return bytes;
              }(),
          {"too much memory"});

  std::string large = pickle_of("X" + pickled_bytes_of(Limits::kPickleBytes - 8, 4) +
                                std::string(Limits::kPickleBytes - 8, 'x'));
  ASSERT_EQ(large.size(), Limits::kPickleBytes);
  EXPECT_EQ(read_pickle(large, "f").root.size, Limits::kPickleBytes - 8);
  large.push_back('.');
  expect_refused<CheckpointError>([&] { read_pickle(large, "f"); }, "f",
                                  {"the pickle is too large", "67108864 bytes, got 67108865"});
}

}  // namespace
}  // namespace hooked::pickle_reader_test
