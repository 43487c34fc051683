/* As projects use `dtrace -h` and `dtrace -G`: macros and semaphores come from shop.d. */
#include "shop.h"

int main(int argc, char** argv) {
  if (SHOP_ORDER_PLACED_ENABLED()) return 1;
  SHOP_ORDER_PLACED(argc, argv[0]);
  SHOP_CLOSED();
  return 0;
}
