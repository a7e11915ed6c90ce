// Package exchange is what the Go clients have in common: the command line and the JSON lines of programs/exchange.py.
package exchange

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const (
	SessionTimeout = 1500 * time.Millisecond
	// A static member has to be back before its session ends, or its partitions go to others.
	StaticSessionTimeout = 20 * time.Second
	HeartbeatInterval    = 300 * time.Millisecond
)

type Record struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Timestamp int64       `json:"timestamp"`
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][2]string `json:"headers"`
}

// Bytes returns nil for null, as the clients want it.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Text returns nil for null.
func Text(content []byte) *string {
	if content == nil {
		return nil
	}
	text := string(content)
	return &text
}

// Input reads the records to produce from standard input.
func Input() []Record {
	var records []Record
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var record Record
		Check(json.Unmarshal(lines.Bytes(), &record))
		records = append(records, record)
	}
	Check(lines.Err())
	return records
}

// Print writes one consumed record as a line.
func Print(record Record) {
	if record.Headers == nil {
		record.Headers = [][2]string{}
	}
	Answer(record)
}

// Answer writes any value as a line of JSON.
func Answer(value any) {
	line, err := json.Marshal(value)
	Check(err)
	fmt.Println(string(line))
}

// Check ends the program with the error, if it is one.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Client is what each program implements.
type Client struct {
	Produce func(bootstrap, topic, codec string, records []Record)
	Consume func(bootstrap, topic string, count int)
	Member  func(stopped context.Context, bootstrap, topic, group, assignor, instance string)
	Admin   func(bootstrap, topic string)
	// Transactions returns a transactional producer that is not initialized, and a member of the group for Pipe; nil
	// for clients without transactions.
	Transactions func(bootstrap, id string, timeout time.Duration, group, topic string) Transactions
}

// Transactions are the steps of a transactional producer, as programs/exchange.py describes them.
type Transactions interface {
	Init() error
	Begin() error
	Send(topic string, partition int32, value string) error
	Pipe(count int, topic string) ([]string, error)
	Commit() error
	Abort() error
	Close()
}

// run runs one step.
func run(transactions Transactions, step []any) (any, error) {
	switch step[0] {
	case "init":
		return nil, transactions.Init()
	case "begin":
		return nil, transactions.Begin()
	case "send":
		return nil, transactions.Send(step[1].(string), int32(step[2].(float64)), step[3].(string))
	case "pipe":
		return transactions.Pipe(int(step[1].(float64)), step[2].(string))
	case "commit":
		return nil, transactions.Commit()
	case "abort":
		return nil, transactions.Abort()
	}
	return nil, fmt.Errorf("no step %v", step)
}

func runSteps(transactions Transactions) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var step []any
		Check(json.Unmarshal(lines.Bytes(), &step))
		result, err := run(transactions, step)
		if err != nil {
			Answer(map[string]any{"error": err.Error()})
		} else {
			Answer(map[string]any{"done": result})
		}
	}
	transactions.Close()
}

// Main runs the command that the command line names.
func Main(client Client) {
	command, arguments := os.Args[1], os.Args[2:]
	switch command {
	case "produce":
		client.Produce(arguments[0], arguments[1], arguments[2], Input())
	case "consume":
		count, err := strconv.Atoi(arguments[2])
		Check(err)
		client.Consume(arguments[0], arguments[1], count)
	case "member":
		stopped, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer cancel()
		instance := ""
		if len(arguments) > 4 {
			instance = arguments[4]
		}
		client.Member(stopped, arguments[0], arguments[1], arguments[2], arguments[3], instance)
	case "admin":
		client.Admin(arguments[0], arguments[1])
	case "transactions":
		timeout, err := strconv.Atoi(arguments[2])
		Check(err)
		runSteps(client.Transactions(
			arguments[0], arguments[1], time.Duration(timeout)*time.Millisecond, arguments[3], arguments[4]))
	}
}
