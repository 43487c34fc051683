#ifdef __cplusplus
enum class one_t : unsigned char { first = 1 };
#else
typedef enum { first = 1 } one_t;
#endif
VITRINE_ENUMERATORS(one_t, first);
