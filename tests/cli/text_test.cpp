#include "cli/output/text.hpp"

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "base/text.hpp"

namespace vitrine::cli {
namespace {

TEST(Utf8, AcceptsWhatTheStandardCallsWellFormed) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"));
}

TEST(Utf8, RefusesOverlongSurrogateCutAndStrayBytes) {
  EXPECT_FALSE(is_utf8("\xc0\xaf"));
  EXPECT_FALSE(is_utf8("\xe0\x80\xaf"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(is_utf8("\xe2\x82"));
  EXPECT_FALSE(is_utf8("\x80"));
}

TEST(Printable, WritesOutWhatWouldSteerATerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("line\nline\r\t\x7f"), "line\\x0aline\\x0d\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("nul\0", 4)), "nul\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u{9b}31m");  // C1 CSI
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "evil"),
            "\\u{202e}evil");  // right-to-left override
  EXPECT_EQ(printable("back\\slash"), "back\\\\slash");
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
}

TEST(SpellingDistance, CountsInsertedDeletedReplacedAndSwappedCharacters) {
  EXPECT_EQ(spelling_distance("item", "item"), 0U);
  EXPECT_EQ(spelling_distance("itme", "item"), 1U);
  EXPECT_EQ(spelling_distance("tiem", "item"), 1U);
  EXPECT_EQ(spelling_distance("tiem", "itme"), 2U);
  EXPECT_EQ(spelling_distance("itm", "item"), 1U);
  EXPECT_EQ(spelling_distance("", "item"), 4U);
  EXPECT_EQ(spelling_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(spelling_distance("ca", "abc"), 3U);  // no character is changed twice
}

TEST(JsonText, EscapesWhatWouldSteerATerminalOrEndALine) {
  const Json json = {{"a", "\x1b[2J\x7f\xc2\x9b\xe2\x80\xa8\xe2\x80\xae\xf3\xa0\x80\x81é€😀"}};
  EXPECT_EQ(json_text(json), R"({"a":"\u001b[2J\u007f\u009b\u2028\u202e\udb40\udc01é€😀"})");
  EXPECT_EQ(Json::parse(json_text(json)), json);
}

TEST(Printable, LeavesReadableTextAlone) {
  EXPECT_EQ(printable("Zürich 東京"), "Zürich 東京");
}

TEST(Delimited, ShowsWhereAValueEnds) {
  EXPECT_EQ(delimited("acme"), "acme");
  EXPECT_EQ(delimited(""), "\"\"");
  EXPECT_EQ(delimited("two words"), "\"two words\"");
  EXPECT_EQ(delimited("say \"hi\""), "\"say \\\"hi\\\"\"");
  EXPECT_EQ(delimited("a=b"), "\"a=b\"");
}

TEST(CutTo, CountsColumnsAndCutsNoCharacter) {
  EXPECT_EQ(cut_to("caf\u00e9", 4, "..."), "caf\u00e9");
  EXPECT_EQ(cut_to("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 5, "..."), "\u00e9\u00e9...");
  EXPECT_EQ(cut_to("abcdef", 3, "\u2026"), "ab\u2026");
  EXPECT_EQ(cut_to("abcdef", 1, "~"), "~");
}

TEST(Table, AlignsByWhatIsSeenNotByBytes) {
  const Style colour(true);
  Table table;
  table.row({"é", "x"});
  table.row({colour.red("abc"), "y"});
  EXPECT_EQ(table.str(1), " é    x\n \x1b[31mabc\x1b[0m  y\n");
}

TEST(Style, IsPlainWhenColourIsOff) {
  EXPECT_EQ(Style(false).bold("text"), "text");
}

}  // namespace
}  // namespace vitrine::cli
