#ifdef __cplusplus
enum class two_t : unsigned char { second = 1 };
#else
typedef enum { second = 1 } two_t;
#endif
VITRINE_ENUMERATORS(two_t, second);
