// Goroutines: the i-th does i + 1 parts of work, on as many threads as GOMAXPROCS says.
package main

import (
	"fmt"
	"sync"
)

const threads, rounds, turns = 4, 10, 300000

//go:noinline
func spin(turns int) float64 {
	x := 1.0
	for i := 0; i < turns; i++ {
		x = x*0.99999 + 1e-9
	}
	return x
}

func main() {
	var all sync.WaitGroup
	var lock sync.Mutex
	sum := 0.0
	for number := 0; number < threads; number++ {
		all.Add(1)
		go func(number int) {
			defer all.Done()
			for r := 0; r < rounds; r++ {
				mine := spin(turns * (number + 1))
				lock.Lock()
				sum += mine
				lock.Unlock()
			}
		}(number)
	}
	all.Wait()
	fmt.Printf("%.3f\n", sum)
}
