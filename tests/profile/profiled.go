// Profiles of Go's own profilers, into the directory that is named: two of the CPU with labels, one of
// waiting, one of memory.
package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

var sink uint64

// The CPU time that this process has used. A busy machine may give it little in a second.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

//go:noinline
func work(until time.Duration) {
	for used() < until {
		for i := uint64(0); i < 100000; i++ {
			sink += i * i
		}
	}
}

func create(name string) *os.File {
	file, err := os.Create(filepath.Join(os.Args[1], name))
	if err != nil {
		panic(err)
	}
	return file
}

func main() {
	runtime.SetBlockProfileRate(1)
	for _, name := range []string{"cpu-1.pprof", "cpu-2.pprof"} {
		file := create(name)
		if err := pprof.StartCPUProfile(file); err != nil {
			panic(err)
		}
		for _, tenant := range []string{"acme", "globex"} {
			pprof.Do(context.Background(), pprof.Labels("tenant", tenant), func(context.Context) {
				work(used() + 300*time.Millisecond)
			})
		}
		pprof.StopCPUProfile()
		file.Close()
	}
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		time.Sleep(20 * time.Millisecond)
		wait.Done()
	}()
	wait.Wait()
	block := create("block.pprof")
	pprof.Lookup("block").WriteTo(block, 0)
	block.Close()
	heap := create("heap.pprof")
	pprof.Lookup("heap").WriteTo(heap, 0)
	heap.Close()
}
