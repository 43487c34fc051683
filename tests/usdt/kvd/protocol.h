// kvd's protocol: lines over a socket.
#ifndef KVD_PROTOCOL_H
#define KVD_PROTOCOL_H
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
/* Reads one line without its end; false at the end of the connection. */
bool protocol_read(int client, char* line, size_t room);
void protocol_write(int client, const char* line);
#ifdef __cplusplus
}
#endif
#endif
