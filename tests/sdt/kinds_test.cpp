// The public header writes the kinds of arguments as numbers, because assembler reads them: they are
// those of the layout.
#include <gtest/gtest.h>
#include <vitrine/sdt.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "abi/typed_note.h"

namespace {

enum class Colour { red };
struct Opaque {
  int data() const { return 0; }
  int size() const { return 0; }
};

template <class T>
constexpr int kind = vitrine_sdt::vitrine_kind<T>::vitrine_value;

TEST(Kinds, AreThoseOfTheLayout) {
  EXPECT_EQ(kind<int>, VITRINE_KIND_INTEGER);
  EXPECT_EQ(kind<char>, VITRINE_KIND_INTEGER);
  EXPECT_EQ(kind<wchar_t>, VITRINE_KIND_INTEGER);
  EXPECT_EQ(kind<unsigned long long>, VITRINE_KIND_INTEGER);
  EXPECT_EQ(kind<float>, VITRINE_KIND_FLOATING);
  EXPECT_EQ(kind<long double>, VITRINE_KIND_FLOATING);
  EXPECT_EQ(kind<bool>, VITRINE_KIND_BOOLEAN);
  EXPECT_EQ(kind<void*>, VITRINE_KIND_POINTER);
  EXPECT_EQ(kind<const unsigned char*>, VITRINE_KIND_POINTER);
  EXPECT_EQ(kind<int (*)(int)>, VITRINE_KIND_POINTER);
  EXPECT_EQ(kind<std::nullptr_t>, VITRINE_KIND_POINTER);
  EXPECT_EQ(kind<char*>, VITRINE_KIND_C_STRING);
  EXPECT_EQ(kind<const char*>, VITRINE_KIND_C_STRING);
  EXPECT_EQ(kind<Colour>, VITRINE_KIND_ENUMERATION);
  EXPECT_EQ(kind<std::string>, VITRINE_KIND_TEXT);
  EXPECT_EQ(kind<std::string_view>, VITRINE_KIND_TEXT);
  EXPECT_EQ(kind<std::u8string_view>, VITRINE_KIND_TEXT);
  EXPECT_EQ(kind<std::vector<unsigned char>>, VITRINE_KIND_BYTES);
  EXPECT_EQ((kind<std::array<std::byte, 4>>), VITRINE_KIND_BYTES);
}

TEST(Kinds, ContainersOfOthersAreNone) {
  EXPECT_EQ(vitrine_sdt::vitrine_view_kind<std::vector<int>>::value, VITRINE_KIND_UNKNOWN);
  EXPECT_EQ(vitrine_sdt::vitrine_view_kind<Opaque>::value, VITRINE_KIND_UNKNOWN);
}

TEST(Kinds, OfExplicitForms) {
  EXPECT_EQ(VITRINE_DETAIL_FIELD(VITRINE_DETAIL_KIND, 1, (text, "", 0)), VITRINE_KIND_TEXT);
  EXPECT_EQ(VITRINE_DETAIL_FIELD(VITRINE_DETAIL_KIND, 1, VITRINE_BYTES(bytes, "", 0)),
            VITRINE_KIND_BYTES);
  EXPECT_EQ(VITRINE_DETAIL_FIELD(VITRINE_DETAIL_KIND, 1, VITRINE_ENUM(colour, Colour::red, Colour)),
            VITRINE_KIND_ENUMERATION);
  for (const int both : {VITRINE_KIND_TEXT, VITRINE_KIND_BYTES})
    EXPECT_TRUE(both & VITRINE_KIND_HAS_LENGTH);
}

}  // namespace
