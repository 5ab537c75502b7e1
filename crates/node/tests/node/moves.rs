use crate::client::Client;
use crate::scripted::{LARGE_BYTES, Running};

/// How often connections have gone to another event loop so far.
fn moves(client: &mut Client) -> u64 {
    let metrics = client.get("/metrics");
    let line = metrics.text().lines().find(|line| line.starts_with("ladoga_connections_moved_total"));
    line.and_then(|line| line.split(' ').next_back()?.parse().ok()).expect("a metric")
}

/// Does this until connections have moved so many times.
fn until_moved(running: &Running, times: u64, mut act: impl FnMut(&mut Client, u32)) {
    let (mut client, mut watcher) = (running.connect(), running.connect());
    let (enough, mut round) = (moves(&mut watcher) + times, 0);
    while moves(&mut watcher) < enough {
        act(&mut client, round);
        round += 1;
    }
}

#[test]
fn requests_in_pieces_are_whole_wherever_they_arrive() {
    let running = Running::start_restless();
    until_moved(&running, 200, |client, round| {
        let request = format!(
            "PUT /v0/entity?id=k HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\n{:04}",
            round % 10_000
        );
        for byte in request.as_bytes().chunks(1 + round as usize % 7) {
            client.send(byte);
        }
        assert_eq!(client.answer().status, 201);
        assert_eq!(client.get("/v0/entity?id=k").text(), format!("{:04}", round % 10_000));
    });
}

#[test]
fn requests_behind_each_other_are_answered_in_order_wherever_they_arrive() {
    let running = Running::start_restless();
    for number in 0..8 {
        running.store.insert(&format!("k{number}"), format!("value {number}").as_bytes());
    }
    until_moved(&running, 200, |client, round| {
        let keys = (0..20).map(|number| (round + number) % 8);
        let request = |key| format!("GET /v0/entity?id=k{key} HTTP/1.1\r\nhost: h\r\n\r\n");
        client.send(keys.clone().map(request).collect::<Vec<_>>().concat());
        for key in keys {
            assert_eq!(client.answer().text(), format!("value {key}"));
        }
    });
}

#[test]
fn values_larger_than_memory_go_through_connections_that_move() {
    let running = Running::start_restless();
    let value: Vec<u8> = (0..LARGE_BYTES * 3 + 7).map(|index| index as u8).collect();
    until_moved(&running, 50, |client, _| {
        assert_eq!(client.put("large", &value).status, 201);
        assert!(client.get("/v0/entity?id=large").body == value);
    });
}

#[test]
fn connections_that_move_are_counted_once_and_end_with_the_node() {
    let running = Running::start_restless();
    let mut idle: Vec<_> = (0..20).map(|_| running.connect()).collect();
    until_moved(&running, 200, |client, _| {
        let metrics = client.get("/metrics");
        let open =
            metrics.text().lines().find(|line| line.starts_with("ladoga_connections ")).expect("a metric");
        // One that is on its way may be counted at both ends.
        let count: u64 = open.split(' ').next_back().and_then(|count| count.parse().ok()).expect("a number");
        assert!((22..=44).contains(&count), "{open}");
    });
    for client in &mut idle {
        assert_eq!(client.get("/livez").status, 200);
    }
    drop(running);
    for client in &mut idle {
        assert!(client.rest().0.is_empty());
    }
}
