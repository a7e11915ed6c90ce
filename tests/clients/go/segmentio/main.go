// segmentio's kafka-go, speaking the exchange.
package main

import (
	"context"
	"errors"
	"time"

	"barnabas.tests/clients/exchange"
	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

var assignors = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

func show(message kafka.Message) {
	shown := exchange.Record{
		Partition: int32(message.Partition),
		Offset:    message.Offset,
		Timestamp: message.Time.UnixMilli(),
		Key:       exchange.Text(message.Key),
		Value:     exchange.Text(message.Value),
	}
	for _, header := range message.Headers {
		shown.Headers = append(shown.Headers, [2]string{header.Key, string(header.Value)})
	}
	exchange.Print(shown)
}

func produce(bootstrap, topic, codec string, records []exchange.Record) {
	writer := &kafka.Writer{
		Addr:                   kafka.TCP(bootstrap),
		Topic:                  topic,
		Compression:            codecs[codec],
		BatchTimeout:           50 * time.Millisecond,
		RequiredAcks:           kafka.RequireAll,
		AllowAutoTopicCreation: true,
	}
	var messages []kafka.Message
	for _, record := range records {
		message := kafka.Message{
			Key:   exchange.Bytes(record.Key),
			Value: exchange.Bytes(record.Value),
			Time:  time.UnixMilli(record.Timestamp),
		}
		for _, header := range record.Headers {
			message.Headers = append(message.Headers, kafka.Header{Key: header[0], Value: []byte(header[1])})
		}
		messages = append(messages, message)
	}
	exchange.Check(writer.WriteMessages(context.Background(), messages...))
	exchange.Check(writer.Close())
}

func consume(bootstrap, topic string, count int) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond})
	for ; count > 0; count-- {
		message, err := reader.ReadMessage(context.Background())
		exchange.Check(err)
		show(message)
	}
	exchange.Check(reader.Close())
}

func member(stopped context.Context, bootstrap, topic, group, assignor, _ string) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{bootstrap},
		Topic:             topic,
		GroupID:           group,
		GroupBalancers:    []kafka.GroupBalancer{assignors[assignor]},
		SessionTimeout:    exchange.SessionTimeout,
		HeartbeatInterval: exchange.HeartbeatInterval,
		RebalanceTimeout:  10 * time.Second,
		JoinGroupBackoff:  200 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
		MaxWait:           100 * time.Millisecond,
	})
	for {
		message, err := reader.FetchMessage(stopped)
		if errors.Is(err, context.Canceled) {
			break
		}
		exchange.Check(err)
		show(message)
		exchange.Check(reader.CommitMessages(context.Background(), message))
	}
	exchange.Check(reader.Close())
}

func main() {
	exchange.Main(exchange.Client{Produce: produce, Consume: consume, Member: member})
}
