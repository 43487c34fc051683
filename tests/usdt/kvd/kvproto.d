/* What the protocol's library reads and writes. */
provider kvproto {
  probe line__in(int client, const char *line) : (const char *line, int client);
  probe line__out(int client, const char *line);
};
