/* Fires probes of every form while all words of the headers are macros. The test writes words_before.h
 * and words_after.h; words of this file are keywords, or begin with my_. C and C++. */
#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#endif
#include "words_before.h"
/* */
#include <vitrine/sdt.h>
/* */
#include "words_after.h"

enum my_colour { my_red = 3, my_green = 7 };
VITRINE_ENUMERATORS(my_colour, my_red, my_green);
VITRINE_SEMAPHORE(my_shared);

int main(void) {
  int my_number = 5;
  double my_price = 2.5;
  const char* my_text = "kettle";
  enum my_colour my_colour_now = my_green;
  VITRINE_PROBE(shop, none);
  VITRINE_PROBE(shop, plain, my_number, my_price);
  VITRINE_LAZY_PROBE(shop, lazy, my_number);
  VITRINE_TYPED_PROBE(shop, order, (my_number), (my_name, my_text), (my_price));
  VITRINE_LAZY_TYPED_PROBE(shop, lazy_order, (my_bytes, my_text, my_number));
  VITRINE_TYPED_PROBE(shop, forms, VITRINE_ENUM(my_colour_now, my_colour_now, enum my_colour),
                      VITRINE_BYTES(my_data, my_text, my_number));
  VITRINE_SHARED_PROBE(my_shared, shop, shared, my_number);
  VITRINE_SHARED_TYPED_PROBE(my_shared, shop, shared_order, (my_number));
  return VITRINE_PROBE_ENABLED(shop, order) || VITRINE_SEMAPHORE_ENABLED(my_shared);
}
