"""Run by gdb: prints the first argument of each probe, as gdb evaluates it."""
import gdb

gdb.execute("set pagination off")
gdb.execute("set debuginfod enabled off")
probes = {}
for line in gdb.execute("info probes stap vectors", to_string=True).splitlines():
    words = line.split()
    if len(words) >= 4 and words[1] == "vectors":
        probes[int(words[3], 16)] = words[2]
for address in probes:
    gdb.execute(f"break *{address:#x}", to_string=True)
gdb.execute("run", to_string=True)
# gdb 16 narrows negative numbers wrongly: it says 2309737968.
narrows = int(gdb.parse_and_eval("(unsigned int)(long)0xfedcba9876543210")) == 0x76543210
while gdb.selected_inferior().pid:
    name = probes[int(gdb.parse_and_eval("(unsigned long)$pc"))]
    try:
        value = str(int(gdb.parse_and_eval("$_probe_arg0")))
    except gdb.error:
        value = "none"
    print("vector", name, value if narrows or name != "v10" else "none")
    gdb.execute("continue", to_string=True)
