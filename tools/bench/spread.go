package main

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A spread is what repeated measurements of one thing came to.
type spread struct{ min, median, max float64 }

func spreadOf(v []float64) spread {
	v = slices.Clone(v)
	slices.Sort(v)
	return spread{v[0], v[len(v)/2], v[len(v)-1]}
}

// in says a spread in a unit, such as "20.1 ms (20.0 to 24.3)".
func (s spread) in(unit string) string {
	if unit != "×" && s.median >= 100 {
		return fmt.Sprintf("%.0f %s (%.0f to %.0f)", s.median, unit, s.min, s.max)
	}
	return fmt.Sprintf("%.2f %s (%.2f to %.2f)", s.median, unit, s.min, s.max)
}

// A stopwatch tells the milliseconds that passed since any moment.
type stopwatch func() float64

var started = time.Now()

// wall is the time that a user waits.
func wall() float64 { return float64(time.Since(started)) / 1e6 }

// processor is the time that this process computes, on all cores together. Others on the machine disturb it less.
func processor() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it knows no other argument
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6
}

// interleave times a and b in turn n times, after one round that does not count. Which of the two goes first changes from
// pair to pair, and neither pays for the other's garbage.
func interleave(n int, now stopwatch, a, b func() error) (as, bs []float64, err error) {
	for i := range n + 1 {
		var took [2]float64
		for k := range 2 {
			j := (i + k) % 2
			runtime.GC()
			began := now()
			if err := []func() error{a, b}[j](); err != nil {
				return nil, nil, err
			}
			took[j] = now() - began
		}
		if i > 0 {
			as, bs = append(as, took[0]), append(bs, took[1])
		}
	}
	return as, bs, nil
}

// ratios divides pair by pair.
func ratios(as, bs []float64) []float64 {
	r := make([]float64, len(as))
	for i := range as {
		r[i] = as[i] / bs[i]
	}
	return r
}
