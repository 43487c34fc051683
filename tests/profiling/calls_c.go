// Go calls C, which calls Go; the runtime works on the thread's own stack. Each function has the same callers
// always.
package main

/*
static volatile long sink;
__attribute__((noinline)) static void spin_in_c(long n) { for (long i = 0; i < n; i++) sink += i; }
__attribute__((noinline)) static void c_leaf(long n) { spin_in_c(n); sink++; }
extern void goCallback(int, long);
__attribute__((noinline)) static void c_calls_go(int depth, long n) { goCallback(depth, n); sink++; }
*/
import "C"

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

var sum int64

//go:noinline
func spinInGo(n int) {
	for i := 0; i < n; i++ {
		sum += int64(i)
	}
}

//export goCallback
func goCallback(depth C.int, n C.long) {
	if depth > 0 {
		C.c_calls_go(depth-1, n)
		sum++
		return
	}
	spinInGo(int(n))
	sum++
}

//go:noinline
func callsC(n int) { C.c_leaf(C.long(n)); sum++ }

//go:noinline
func callsBack(depth int, n int) { C.c_calls_go(C.int(depth), C.long(n)); sum++ }

//go:noinline
func collects() { runtime.GC(); sum++ }

//go:noinline
func readsStats() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	sum += int64(m.Alloc)
}

//go:noinline
func asksForTime(n int) {
	for i := 0; i < n; i++ {
		sum += time.Now().UnixNano()
	}
}

// However many others have the CPUs, so much is there to sample.
func cpuTime() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func main() {
	fmt.Println("ready", runtime.Version())
	for cpuTime() < 1500*time.Millisecond {
		callsC(300000)
		callsBack(0, 300000)
		callsBack(3, 300000)
		collects()
		for i := 0; i < 200; i++ {
			readsStats()
		}
		asksForTime(3000)
	}
}
