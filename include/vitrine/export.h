/* VITRINE_EXPORT: visible from outside the shared library that the code is built into. */
#ifndef VITRINE_EXPORT_H
#define VITRINE_EXPORT_H

#define VITRINE_EXPORT __attribute__((visibility("default")))

#endif
