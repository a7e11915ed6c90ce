package orders

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestOrdersArriveInTheirOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BOOTSTRAP_SERVERS"), ",")...),
		kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, order := range []string{"one", "two", "three"} {
		record := &kgo.Record{Topic: "orders", Key: []byte("customer"), Value: []byte(order)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var received []string
	for len(received) < 3 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) { received = append(received, string(record.Value)) })
	}
	if got := strings.Join(received, " "); got != "one two three" {
		t.Fatalf("received %q", got)
	}
}
