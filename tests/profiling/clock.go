// Asks for the time all the time: the runtime calls the vdso on another stack than this goroutine's.
package main

import (
	"fmt"
	"time"
)

var sum int64

//go:noinline
func askForTime(times int) {
	for i := 0; i < times; i++ {
		sum += time.Now().UnixNano()
	}
}

func main() {
	fmt.Println("ready")
	for {
		askForTime(1000)
	}
}
