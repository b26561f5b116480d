// Decides histories by porcupine, which knows nothing of our judge: a file of calls in the form of
// crates/history/src/call.rs, each key a history. Prints a line for each: the key, and "right", "wrong" or
// "undecided".
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const callBytes = 48

const (
	read = iota
	write
	swap
)

type call struct {
	kind            uint32
	value, expected uint64
	isAnswered      bool
}

var register = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		before, asked := state.(uint64), input.(call)
		switch asked.kind {
		case read:
			return asked.value == before, before
		case write:
			return true, asked.value
		}
		if before == asked.expected {
			return true, asked.value
		}
		// Without an answer, the condition may not have held.
		return !asked.isAnswered, before
	},
	Equal: func(a, b any) bool { return a == b },
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	histories := map[uint64][]porcupine.Operation{}
	bytes, in := make([]byte, callBytes), bufio.NewReader(file)
	for {
		if _, err := io.ReadFull(in, bytes); err == io.EOF {
			break
		} else if err != nil {
			panic(err)
		}
		number := func(at int) uint64 { return binary.LittleEndian.Uint64(bytes[8*at:]) }
		answered := number(2)
		asked := call{uint32(number(5) >> 32), number(3), number(4), answered != math.MaxUint64}
		ended := int64(math.MaxInt64)
		if asked.isAnswered {
			ended = int64(answered)
		}
		histories[number(0)] = append(histories[number(0)], porcupine.Operation{
			ClientId: int(uint32(number(5))), Input: asked, Call: int64(number(1)), Return: ended,
		})
	}
	keys := make([]uint64, 0, len(histories))
	for key := range histories {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(a, b int) bool { return keys[a] < keys[b] })
	words := map[porcupine.CheckResult]string{porcupine.Ok: "right", porcupine.Illegal: "wrong", porcupine.Unknown: "undecided"}
	for _, key := range keys {
		result := porcupine.CheckOperationsTimeout(register, histories[key], 10*time.Second)
		fmt.Println(key, words[result])
	}
}
