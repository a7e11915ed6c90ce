use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::ClientConfig;
use std::time::Duration;

#[test]
fn orders_arrive_in_their_order() {
    let brokers = std::env::var("KAFKA_BOOTSTRAP_SERVERS").expect("run by `barnabas run`");
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
    for order in ["one", "two", "three"] {
        producer.send(BaseRecord::to("orders").key("customer").payload(order)).unwrap();
    }
    producer.flush(Duration::from_secs(30)).unwrap();

    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &brokers)
        .set("group.id", "billing")
        .set("auto.offset.reset", "earliest")
        .create()
        .unwrap();
    consumer.subscribe(&["orders"]).unwrap();
    let received: Vec<String> = consumer
        .iter()
        .take(3)
        .map(|message| String::from_utf8(message.unwrap().payload().unwrap().to_vec()).unwrap())
        .collect();
    assert_eq!(received, ["one", "two", "three"]);
}
