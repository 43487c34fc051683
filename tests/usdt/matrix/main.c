#include "matrix_subject.h"

int main(void) {
  return subject();
}
