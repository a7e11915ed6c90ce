// Many producers and consumers at once, for benchmarks/beside_kafka.py: one of each a partition, on connections of
// their own. Every producer keeps a bounded number of records under way, so the latency says how fast the broker
// passes them on, not how long a queue the producers could build.
//
//	crowd BOOTSTRAP TOPIC PARTITIONS RECORD_BYTES WARM_UP_S SECONDS
//
// Prints {"records_per_s": ..., "p50_ms": ..., "p99_ms": ...} of what was consumed after the warm-up.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const underWay = 200

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	partitions, size := number(3), number(4)
	counted := time.Now().Add(time.Duration(number(5)) * time.Second)
	ends := counted.Add(time.Duration(number(6)) * time.Second)
	ctx, cancel := context.WithDeadline(context.Background(), ends)
	defer cancel()

	latencies := make([][]time.Duration, partitions)
	var all sync.WaitGroup
	for partition := range partitions {
		all.Go(func() { produce(ctx, bootstrap, topic, int32(partition), size) })
		all.Go(func() { latencies[partition] = consume(ctx, bootstrap, topic, int32(partition), counted) })
	}
	all.Wait()

	merged := slices.Concat(latencies...)
	slices.Sort(merged)
	if len(merged) == 0 {
		fail(fmt.Errorf("nothing was consumed"))
	}
	milliseconds := func(share float64) float64 {
		return merged[int(share*float64(len(merged)-1))].Seconds() * 1e3
	}
	json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"records_per_s": float64(len(merged)) / ends.Sub(counted).Seconds(),
		"p50_ms":        milliseconds(0.5),
		"p99_ms":        milliseconds(0.99),
	})
}

func produce(ctx context.Context, bootstrap, topic string, partition int32, size int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(underWay))
	fail(err)
	defer client.Close()
	for ctx.Err() == nil {
		value := make([]byte, size)
		binary.BigEndian.PutUint64(value, uint64(time.Now().UnixNano()))
		client.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: value}, func(_ *kgo.Record, err error) {
			if ctx.Err() == nil {
				fail(err)
			}
		})
	}
}

func consume(ctx context.Context, bootstrap, topic string, partition int32, counted time.Time) (found []time.Duration) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().AtEnd()},
	}))
	fail(err)
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		if now.Before(counted) {
			continue
		}
		fetches.EachRecord(func(record *kgo.Record) {
			sent := time.Unix(0, int64(binary.BigEndian.Uint64(record.Value)))
			found = append(found, now.Sub(sent))
		})
	}
	return found
}

func number(argument int) int {
	value, err := strconv.Atoi(os.Args[argument])
	fail(err)
	return value
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
