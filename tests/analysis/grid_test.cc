#include "hooked/analysis/grid.h"

#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hooked/analysis/heat_map.h"
#include "hooked/analysis/line_plot.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

namespace hooked::grid_test {
namespace {

Grid two_by_three() {
  return Grid(at::tensor({0.5, -1.25, 2.0, 3.0, 0.0, -10.0}, at::kDouble).view({2, 3}),
              {{"layer", {"0", "1"}}, {"pos", {"0 <bos>", "1 a,b", "2 \"c\""}}},
              {.title = "Patching resid_pre", .unit = "logit difference"});
}

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Grid, KeepsValuesAsFloat64) {
  const Grid grid(at::arange(2, at::kFloat), {{"head", {"0", "1"}}}, {.title = "t", .unit = "u"});
  EXPECT_EQ(grid.values().scalar_type(), at::kDouble);
  EXPECT_EQ(grid.at({1}), 1.0);
  EXPECT_EQ(two_by_three().at({1, -1}), -10.0);
}

TEST(Grid, RefusesLabelsThatDoNotFit) {
  const auto make = [] {
    Grid(at::arange(3, at::kDouble), {{"head", {"0", "1"}}}, {.title = "scores", .unit = ""});
  };
  EXPECT_THAT(text_thrown_by<ShapeError>(make),
              AllOf(HasSubstr("[scores]"), HasSubstr("axis head has 2 labels"), HasSubstr("expected 3")));
  const auto flat = [] {
    Grid(at::arange(4, at::kDouble), {{"a", {"0"}}, {"b", {"0"}}}, {.title = "x", .unit = ""});
  };
  EXPECT_THAT(text_thrown_by<ShapeError>(flat), AllOf(HasSubstr("2 axes"), HasSubstr("[4]")));
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                two_by_three().at({2, 0});
              }),
              AllOf(HasSubstr("index 2"), HasSubstr("layer of size 2")));
}

TEST(Grid, OwnsItsNumbers) {
  auto values = at::arange(2, at::kDouble);
  const Grid grid(values, {{"head", {"0", "1"}}}, {.title = "t", .unit = "u"});
  values.fill_(7);
  EXPECT_EQ(grid.at({1}), 1.0);
}

TEST(Grid, SlicesByIndexOrLabel) {
  const auto layer = two_by_three().slice("layer", -1);
  EXPECT_EQ(layer.title(), "Patching resid_pre, layer 1");
  ASSERT_EQ(layer.axes().size(), 1u);
  EXPECT_EQ(layer.axes()[0].name, "pos");
  EXPECT_EQ(layer.at({0}), 3.0);
  EXPECT_EQ(two_by_three().slice("pos", "1 a,b").at({0}), -1.25);
  EXPECT_EQ(two_by_three().slice("pos", "1").at({0}), -1.25) << "the column of the token is enough";
  EXPECT_EQ(two_by_three().slice("pos", 1).slice("layer", "0").at({}), -1.25);
  EXPECT_THAT(text_thrown_by<ShapeError>([] { two_by_three().slice("head", 0); }),
              AllOf(HasSubstr("no axis 'head'"), HasSubstr("layer, pos")));
  EXPECT_THAT(text_thrown_by<ShapeError>([] { two_by_three().slice("pos", "4"); }),
              AllOf(HasSubstr("no place '4'"), HasSubstr("0 <bos>")));
  EXPECT_THAT(text_thrown_by<ShapeError>([] { two_by_three().slice("pos", 3); }), HasSubstr("index 3"));
  const Grid twice(at::arange(2, at::kDouble), {{"token", {"a", "a"}}}, {.title = "t", .unit = "u"});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { twice.slice("token", "a"); }),
              HasSubstr("occurs several times"));
}

TEST(Grid, MeansLeaveOutWhatWasNotComputed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Grid grid(at::tensor({1.0, nan, nan, 4.0, 3.0, nan}, at::kDouble).view({2, 3}),
                  {{"row", {"0", "1"}}, {"pos", {"a", "b", "c"}}}, {.title = "t", .unit = "u"});
  const auto mean = grid.mean("row");
  EXPECT_EQ(mean.at({0}), 2.5);
  EXPECT_EQ(mean.at({1}), 3.0);
  EXPECT_TRUE(std::isnan(mean.at({2})));
  EXPECT_EQ(mean.axes()[0].labels, std::vector<std::string>({"a", "b", "c"}));
}

TEST(Grid, DifferencesAreOfLikeWithLike) {
  const auto grid = two_by_three();
  const auto difference = grid.rescaled(0, 2, "logit difference") - grid;
  EXPECT_EQ(difference.at({1, 2}), 5.0);
  EXPECT_EQ(difference.title(), "Patching resid_pre - Patching resid_pre");
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { grid - grid.rescaled(0, 2, "share"); }),
              AllOf(HasSubstr("'logit difference'"), HasSubstr("'share'")));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { grid.slice("layer", 0) - grid; }),
              AllOf(HasSubstr("other axes"), HasSubstr("expected some of [pos]")));
  const Grid other(grid.values(), {{"layer", {"0", "2"}}, grid.axes()[1]},
                   {.title = "x", .unit = grid.unit()});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { grid - other; }), HasSubstr("layer [0, 2]"));
}

TEST(Grid, AxesHaveNamesOfTheirOwn) {
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                Grid(at::arange(1, at::kDouble).view({1, 1}), {{"a", {"0"}}, {"a", {"0"}}},
                     {.title = "x", .unit = ""});
              }),
              HasSubstr("two axes are named 'a'"));
  EXPECT_THAT(
      text_thrown_by<ShapeError>([] {
        Grid(at::arange(2, at::kDouble), {{"a", {"0", "1"}, {std::nullopt}}}, {.title = "x", .unit = ""});
      }),
      HasSubstr("addresses of 1 places"));
}

TEST(Grid, LargestBySizeFindsBothSigns) {
  const auto cells = two_by_three().largest(2, LargestBy::size);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].value, -10.0);
  EXPECT_EQ(cells[0].labels, std::vector<std::string>({"1", "2 \"c\""}));
  EXPECT_EQ(cells[1].value, 3.0);
}

TEST(Grid, LargestComesFirst) {
  const auto cells = two_by_three().largest(2);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].index, std::vector<std::int64_t>({1, 0}));
  EXPECT_EQ(cells[0].value, 3.0);
  EXPECT_EQ(cells[1].index, std::vector<std::int64_t>({0, 2}));
  EXPECT_EQ(two_by_three().largest(100).size(), 6u);
}

TEST(Grid, RescaledPutsTwoNumbersAtZeroAndOne) {
  const auto grid = two_by_three().rescaled(-10, 3, "share");
  EXPECT_EQ(grid.at({1, 2}), 0.0);
  EXPECT_EQ(grid.at({1, 0}), 1.0);
  EXPECT_EQ(grid.unit(), "share");
  EXPECT_THAT(text_thrown_by<ShapeError>([] { two_by_three().rescaled(2, 2, ""); }),
              HasSubstr("got 2 twice"));
}

TEST(Grid, PrintsAnAlignedTable) {
  std::ostringstream out;
  out << two_by_three();
  EXPECT_EQ(out.str(),
            "Patching resid_pre (logit difference)\n"
            "layer \\ pos  0 <bos>   1 a,b    2 \"c\"\n"
            "          0    0.500  -1.250    2.000\n"
            "          1    3.000   0.000  -10.000\n");
}

TEST(Grid, PrintsOneAxisAndThree) {
  std::ostringstream out;
  out << Grid(at::tensor({1.0, 2.0}, at::kDouble), {{"head", {"0", "1"}}}, {.title = "one", .unit = "x"})
      << Grid(at::arange(4, at::kDouble).view({2, 1, 2}),
              {{"layer", {"0", "1"}}, {"pos", {"p"}}, {"head", {"0", "1"}}}, {.title = "three", .unit = "x"});
  EXPECT_EQ(out.str(),
            "one (x)\n"
            "head  0  1\n"
            "      1  2\n"
            "three (x)\n"
            "layer 0\n"
            "pos \\ head  0  1\n"
            "         p  0  1\n"
            "layer 1\n"
            "pos \\ head  0  1\n"
            "         p  2  3\n");
}

TEST(Grid, CsvIsALineANumberAndQuotesWhatNeedsIt) {
  const auto csv = two_by_three().to_csv();
  EXPECT_THAT(csv, testing::StartsWith("layer,pos,value,unit,title\n"
                                       "0,0 <bos>,0.5,logit difference,Patching resid_pre\n"
                                       "0,\"1 a,b\",-1.25,logit difference,Patching resid_pre\n"));
  EXPECT_THAT(csv, HasSubstr("1,\"2 \"\"c\"\"\",-10,"));
}

// Every character that a name, a label, the title and the unit may have is kept; only line ends may be CRLF.
TEST(Grid, CsvKeepsCarriageReturnsAndMarks) {
  const TempFolder folder;
  const Grid grid(at::tensor({1.5, 2.5, 3.5, 4.5, 5.5}, at::kDouble),
                  {{"\xEF\xBB\xBFtoken", {"\r\n", "\r", "\n", "\n\r\r\n\n", "\xEF\xBB\xBF"}}},
                  {.title = "a\r\nb\r\n", .unit = "\r\r\nu\n"});
  grid.save(folder / "g.csv");
  const Grid loaded = Grid::load(folder / "g.csv");
  EXPECT_EQ(loaded.axes(), grid.axes());
  EXPECT_EQ(loaded.title(), grid.title());
  EXPECT_EQ(loaded.unit(), grid.unit());
  EXPECT_TRUE(at::equal(loaded.values(), grid.values()));

  std::string csv = two_by_three().to_csv(), windows;
  for (const char c : csv) windows += c == '\n' ? "\r\n" : std::string(1, c);
  for (const char* const end : {"", "\r\n", "\n\n"}) {
    write_file(folder / "windows.csv", windows + end);
    EXPECT_EQ(Grid::load(folder / "windows.csv").to_csv(), csv);
  }
  write_file(folder / "lone.csv", "s,value,unit,title\n0,1,u,t\r");
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { Grid::load(folder / "lone.csv"); }),
              HasSubstr("line 2: a carriage return without a line feed"));
}

TEST(Grid, JsonHoldsEverythingAndNullForNaN) {
  const Grid grid(at::tensor({1.5, std::numeric_limits<double>::quiet_NaN()}, at::kDouble),
                  {{"head", {"0", "1"}}}, {.title = "t", .unit = "u"});
  const auto json = nlohmann::json::parse(grid.to_json());
  EXPECT_EQ(
      json,
      nlohmann::json::parse(
          R"({"title":"t","unit":"u","axes":[{"name":"head","labels":["0","1"]}],"values":[1.5,null]})"));
}

TEST(Grid, SavesByTheFilesEnding) {
  const TempFolder folder;
  const auto grid = two_by_three();
  for (const char* name : {"g.svg", "g.csv", "g.json"}) grid.save(folder / name);
  EXPECT_EQ(read(folder / "g.csv"), grid.to_csv());
  EXPECT_EQ(read(folder / "g.json"), grid.to_json());
  EXPECT_THAT(read(folder / "g.svg"), testing::StartsWith("<svg"));
  const auto error = thrown_by<IoError>([&] { grid.save(folder / "g.png"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), AllOf(HasSubstr(".png"), HasSubstr(".csv, .json, .svg or .safetensors")));
  EXPECT_THROW(grid.save(folder / "absent" / "g.csv"), IoError);
}

TEST(Grid, ReplacesGridsAndNothingOfOthers) {
  const TempFolder folder;
  const auto grid = two_by_three();
  const std::string csv = "layer,head,value\n0,0,1\n";  // somebody's own table
  for (const std::string ending : {".svg", ".csv", ".json", ".safetensors"}) {
    SCOPED_TRACE(ending);
    const auto file = folder / ("g" + ending);
    for (int i = 0; i < 2; ++i) grid.save(file);
    const auto own = read(file);
    const auto others = {std::string(), std::string("text"), csv, own.substr(0, own.size() / 2),
                         std::string("<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>")};
    for (const auto& text : others) {
      if (ending == ".svg" && own.starts_with(text) && text.size() > 100) continue;  // by its first tag
      write_file(file, text);
      EXPECT_THAT(text_thrown_by<IoError>([&] { grid.save(file); }),
                  HasSubstr("not a grid written by hooked"));
      EXPECT_THROW(Grid::require_can_save(file), IoError);
      EXPECT_EQ(read(file), text);
    }
    grid.save(file, Overwrite::any);
    EXPECT_EQ(read(file), own);
  }
  // A file of tensors that is not a grid: a model's weights.
  save_safetensors(folder / "g.safetensors", {{"W_E", at::ones({2})}}, {.metadata = {{"format", "pt"}}});
  EXPECT_THROW(grid.save(folder / "g.safetensors"), IoError);
  write_file(folder / "g.svg", "text");
  EXPECT_THROW(grid.save(folder / "g.svg", HeatMapOptions()), IoError);
  grid.save(folder / "g.svg", HeatMapOptions(), Overwrite::any);
  write_file(folder / "g.svg", line_plot_svg(grid));
  grid.save(folder / "g.svg");  // a picture, too
}

TEST(Grid, SavesPicturesWithOptions) {
  const TempFolder folder;
  const HeatMapOptions options{.palette = "PRGn", .centre = 1.0, .high = 2.0};
  two_by_three().save(folder / "g.svg", options);
  EXPECT_EQ(read(folder / "g.svg"), heat_map_svg(two_by_three(), options));
  EXPECT_NE(read(folder / "g.svg"), heat_map_svg(two_by_three()));
  EXPECT_THAT(text_thrown_by<IoError>([&] { two_by_three().save(folder / "g.csv", options); }),
              AllOf(HasSubstr("expected a name ending in .svg, got '.csv'"), HasSubstr("leave out")));
  EXPECT_FALSE(std::filesystem::exists(folder / "g.csv"));
  EXPECT_THROW(two_by_three().save(folder / "h.svg", {.palette = "plaid"}), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(folder / "h.svg"));
}

/// Four axes, places, and every kind of number.
Grid of_everything() {
  auto values = at::arange(24, at::kDouble).view({2, 1, 3, 4}) / 7 - 1.0 / 3;
  const std::vector<double> special = {std::numeric_limits<double>::quiet_NaN(),
                                       std::numeric_limits<double>::infinity(),
                                       -std::numeric_limits<double>::infinity(),
                                       -0.0,
                                       std::numeric_limits<double>::denorm_min(),
                                       std::numeric_limits<double>::max(),
                                       1e300,
                                       3.0};
  for (std::size_t i = 0; i < special.size(); ++i)
    values.view({-1})[static_cast<std::int64_t>(i)].fill_(special[i]);
  return Grid(values,
              {{"part", {"head 0.1", "bias"}, {Address("blocks.0.attn.hook_z[head=1]"), std::nullopt}},
               {"row", {""}},
               {"pos", {"0 a,b", "1 \"c\"", "2 \n"}},
               {"layer",
                {"0", "1", "2", "3"},
                {"blocks.0.hook_resid_pre", "blocks.1.hook_resid_pre", "decoder.2.hook_resid_pre",
                 "blocks.3.hook_resid_pre"}}},
              {.title = "a, \"b\"", .unit = "µ, nats"});
}

std::vector<std::uint64_t> bits_of(const Grid& grid) {
  const auto* numbers = grid.values().const_data_ptr<double>();
  std::vector<std::uint64_t> bits;
  for (std::int64_t i = 0; i < grid.values().numel(); ++i)
    bits.push_back(std::isnan(numbers[i]) ? 0x7FF8000000000000 : std::bit_cast<std::uint64_t>(numbers[i]));
  return bits;
}

void expect_same(const Grid& read, const Grid& written) {
  EXPECT_EQ(read.title(), written.title());
  EXPECT_EQ(read.unit(), written.unit());
  EXPECT_EQ(read.axes(), written.axes());
  EXPECT_EQ(read.values().sizes(), written.values().sizes());
  EXPECT_EQ(bits_of(read), bits_of(written));
}

TEST(Grid, IsReadBackAsItWasWritten) {
  const TempFolder folder;
  const Grid number(at::tensor({0.1}, at::kDouble)[0], {}, {.title = "one number", .unit = ""});
  const Grid single = two_by_three().slice("layer", 0);
  for (const char* name : {"g.csv", "g.json", "g.safetensors"}) {
    for (const auto& grid : {of_everything(), number, single}) {
      SCOPED_TRACE(name + grid.title());
      grid.save(folder / name);
      expect_same(Grid::load(folder / name), grid);
    }
  }
}

TEST(Grid, TenAxesAndEmptyOnesFitTheFormatsThatCanHoldThem) {
  const TempFolder folder;
  std::vector<GridAxis> axes;
  for (int i = 0; i < 10; ++i) axes.push_back({std::to_string(i), {"a", "b"}});
  const Grid ten(at::arange(1024, at::kDouble).view(std::vector<std::int64_t>(10, 2)), axes,
                 {.title = "t", .unit = "u"});
  const Grid empty(at::arange(0, at::kDouble).view({2, 0}), {{"a", {"0", "1"}}, {"b", {}}},
                   {.title = "t", .unit = "u"});
  for (const char* name : {"g.json", "g.safetensors"}) {
    for (const auto& grid : {ten, empty}) {
      grid.save(folder / name);
      expect_same(Grid::load(folder / name), grid);
    }
  }
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { empty.save(folder / "g.csv"); }),
              AllOf(HasSubstr("this grid has none"), HasSubstr(".json or .safetensors")));
  EXPECT_FALSE(std::filesystem::exists(folder / "g.csv"));
  const Grid twice(at::arange(2, at::kDouble), {{"token", {"a", "a"}}}, {.title = "t", .unit = "u"});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { twice.to_csv(); }), HasSubstr("same label 'a'"));
}

TEST(Grid, FilesThatAreNoGridsAreRefused) {
  const TempFolder folder;
  const auto refusal = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return text_thrown_by<CheckpointError>([&] { Grid::load(folder / name); });
  };
  EXPECT_THAT(refusal("g.json", "[1]"), HasSubstr("an array where an object should stand"));
  EXPECT_THAT(refusal("g.json", R"({"title":"t","unit":"u","axes":[],"values":"x"})"), HasSubstr("a string"));
  EXPECT_THAT(
      refusal("g.json", R"({"title":"t","unit":"u","axes":[{"name":"a","labels":["0"]}],"values":[]})"),
      HasSubstr("axis 'a'"));
  EXPECT_THAT(
      refusal("g.json", R"({"title":"t","unit":"u","axes":[{"name":"a","labels":["0"],"places":["x!"]}],)"
                        R"("values":[1]})"),
      HasSubstr("the address 'x!'"));
  EXPECT_THAT(refusal("g.csv", "a,value\n1,2\n"), HasSubstr("value, unit and title"));
  EXPECT_THAT(refusal("g.csv", "a,value,unit,title\n1,2x,u,t\n"), HasSubstr("line 2: '2x' is not a number"));
  EXPECT_THAT(refusal("g.csv", "a,value,unit,title\n1,2\n"), HasSubstr("line 2: expected 4 fields"));
  EXPECT_THAT(refusal("g.csv", "a,value,unit,title\n\"1,2,u,t\n"), HasSubstr("never closed"));
  const auto csv = two_by_three().to_csv();
  EXPECT_THAT(refusal("g.csv", csv.substr(0, csv.size() - 50)), HasSubstr("g.csv"));
  EXPECT_THAT(refusal("g.csv", "a,b,value,unit,title\n0,0,1,u,t\n1,1,1,u,t\n0,1,1,u,t\n1,0,1,u,t\n"),
              HasSubstr("line 3: a '1' where"));
  EXPECT_THROW(Grid::load(folder / "absent.json"), IoError);
  EXPECT_THROW(Grid::load(folder / "g.svg"), IoError);
}

TEST(Grid, ManyAxesPrintATablePerPlaceOfTheFirst) {
  std::ostringstream out;
  out << Grid(at::arange(4, at::kDouble).view({1, 2, 1, 2}),
              {{"row", {"0"}}, {"token", {"a", "b"}}, {"point", {"x"}}, {"pos", {"0", "1"}}},
              {.title = "four", .unit = "u"})
      << Grid(at::tensor({2.5}, at::kDouble)[0], {}, {.title = "none", .unit = "u"})
      << Grid(at::tensor({1e-5, 0.02}, at::kDouble), {{"head", {"0", "1"}}}, {.title = "small", .unit = "u"});
  EXPECT_EQ(out.str(),
            "four (u)\n"
            "row 0, token a\n"
            "point \\ pos  0  1\n"
            "          x  0  1\n"
            "row 0, token b\n"
            "point \\ pos  0  1\n"
            "          x  2  3\n"
            "none (u)\n"
            "2.500\n"
            "small (u)\n"
            "head       0       1\n"
            "      0.0000  0.0200\n");
}

TEST(Grid, PicturesOfManyAxesHaveAPanelPerPlaceOfTheFirst) {
  const auto svg = heat_map_svg(of_everything().slice("row", 0).slice("pos", 1));
  EXPECT_THAT(svg, HasSubstr("head 0.1"));
  const Grid four(at::arange(8, at::kDouble).view({2, 2, 1, 2}),
                  {{"row", {"0", "1"}}, {"token", {"a", "b"}}, {"point", {"x"}}, {"pos", {"0", "1"}}},
                  {.title = "four", .unit = "u"});
  const auto panels = heat_map_svg(four);
  for (const char* title : {"row 0, token a", "row 0, token b", "row 1, token a", "row 1, token b"})
    EXPECT_THAT(panels, HasSubstr(title));
  EXPECT_THAT(text_thrown_by<ShapeError>([] { heat_map_svg(two_by_three().mean("layer").mean("pos")); }),
              HasSubstr("one number and no table"));
}

}  // namespace
}  // namespace hooked::grid_test
