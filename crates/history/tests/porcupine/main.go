// Reads histories as JSON, one a line, and says of each whether Porcupine finds it linearizable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

type input struct {
	Op       string  `json:"op"`
	Value    *uint64 `json:"value"`
	Expected *uint64 `json:"expected"`
}

type answer struct {
	At    int64   `json:"at"`
	Said  string  `json:"said"`
	Value *uint64 `json:"value"`
}

type operation struct {
	Invoked int64   `json:"invoked"`
	Input   input   `json:"input"`
	Answer  *answer `json:"answer"`
}

// What a key holds: -1 is nothing.
func number(value *uint64) int64 {
	if value == nil {
		return -1
	}
	return int64(*value)
}

func step(held int64, asked input) (int64, answer) {
	switch asked.Op {
	case "read":
		return held, answer{Said: "value", At: held}
	case "write", "delete":
		return number(asked.Value), answer{Said: "done"}
	case "set":
		if held == number(asked.Expected) {
			return number(asked.Value), answer{Said: "done"}
		}
		return held, answer{Said: "refused"}
	default:
		next := max(held, 0) + 1
		return next, answer{Said: "value", At: next}
	}
}

var register = porcupine.Model{
	Init: func() interface{} { return int64(-1) },
	Step: func(state, asked, told interface{}) (bool, interface{}) {
		next, said := step(state.(int64), asked.(input))
		known := told.(*answer)
		if known == nil {
			return true, next
		}
		right := known.Said == said.Said && (said.Said != "value" || number(known.Value) == said.At)
		return right, next
	},
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var history []operation
		if err := json.Unmarshal(lines.Bytes(), &history); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		var operations []porcupine.Operation
		for client, one := range history {
			// One that nobody knows of may come after all others, where nobody sees what it does.
			end := int64(math.MaxInt64)
			if one.Answer != nil {
				end = one.Answer.At
			}
			operations = append(operations, porcupine.Operation{
				ClientId: client, Input: one.Input, Call: one.Invoked, Output: one.Answer, Return: end,
			})
		}
		if porcupine.CheckOperations(register, operations) {
			fmt.Println("linearizable")
		} else {
			fmt.Println("violation")
		}
	}
}
