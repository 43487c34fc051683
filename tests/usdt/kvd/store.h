// kvd's store: a table of texts.
#ifndef KVD_STORE_H
#define KVD_STORE_H
#ifdef __cplusplus
extern "C" {
#endif
/* 0: no memory. */
int store_set(const char* key, const char* value);
/* NULL: there is no such key. */
const char* store_get(const char* key);
#ifdef __cplusplus
}
#endif
#endif
