//! The feed of changes by the `EventSource` of a real browser. If none is installed, this is skipped with a printed reason.

use serde_json::{Value, json};

use crate::support::{Browser, Launch, Node, Page};

/// Follows from now on. A page knows what it was told, by key, and how often it was connected.
const FOLLOW: &str = "(() => { \
    window.values = {}; window.tokens = []; window.opened = 0; \
    window.source = new EventSource(URL_OF_FEED); \
    source.onopen = () => opened += 1; \
    source.onmessage = event => { \
        const change = JSON.parse(event.data); \
        values[change.key] = change.op === 'put' ? change.value : null; \
    }; \
    source.addEventListener('bookmark', event => tokens.push([event.lastEventId, JSON.parse(event.data).bookmark])); \
})()";

/// Opens a page of a node, which has nothing but text, and follows the changes that a URL tells.
fn follow<'b>(browser: &'b mut Browser, origin: &str, feed: &str) -> Page<'b> {
    let mut page = browser.open_url(&format!("{origin}/livez"), 400, 300);
    page.evaluate(&FOLLOW.replace("URL_OF_FEED", &json!(feed).to_string()));
    page
}

/// Waits until a page knows these values and no others.
fn wait_until_known(page: &mut Page<'_>, expected: &Value) {
    let sorted = "JSON.stringify(Object.entries(values).sort())";
    let pairs: Vec<Value> =
        expected.as_object().expect("values").iter().map(|(key, value)| json!([key, value])).collect();
    page.wait_until(&format!("{sorted} === {}", json!(json!(pairs).to_string())));
}

#[test]
fn an_event_source_comes_back_by_itself_and_misses_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let mut node = Node::start();
    node.connect().put("k-before", b"not told");
    let mut page = follow(&mut browser, &node.url(), "/v0/changes?prefix=k-");
    // From now on is from the first bookmark on.
    page.wait_until("tokens.length > 0");
    let mut writer = node.connect();
    writer.put("k-a", "one\ntwo, ä".as_bytes());
    writer.put("other", b"not asked for");
    writer.put("k-b", b"gone soon");
    wait_until_known(&mut page, &json!({ "k-a": "one\ntwo, ä", "k-b": "gone soon" }));
    // The identifiers are the tokens.
    let tokens = page.evaluate("tokens");
    let is_token = |pair: &Value| pair[0] == pair[1] && pair[0].as_str().is_some_and(|id| !id.is_empty());
    assert!(tokens.as_array().expect("tokens").iter().all(is_token), "{tokens}");

    for round in 0..2 {
        if round == 0 {
            node.kill();
        } else {
            node.stop();
        }
        page.wait_until("source.readyState === EventSource.CONNECTING");
        // While the page cannot reach the store: only with the identifier is it told of this.
        let mut elsewhere = Launch::new().data(node.data()).start();
        let mut writer = elsewhere.connect();
        writer.put(format!("k-missed-{round}"), b"told later");
        writer.delete("k-b");
        elsewhere.stop();
        assert_eq!(page.evaluate("opened"), json!(round + 1), "nobody else answered");
        node.start_again();
        page.wait_until(&format!("opened === {}", round + 2));
        node.connect().put("k-a", format!("after {round}").as_bytes());
        let mut expected = json!({ "k-a": format!("after {round}"), "k-b": null });
        for earlier in 0..=round {
            expected[format!("k-missed-{earlier}")] = json!("told later");
        }
        wait_until_known(&mut page, &expected);
    }
}

#[test]
fn a_page_of_another_origin_is_told_nothing() {
    let Some(mut browser) = Browser::start() else { return };
    let (node, stranger) = (Node::start(), Node::start());
    node.connect().put("k", b"secret");
    let mut page = follow(&mut browser, &stranger.url(), &format!("{}/v0/changes?since=0", node.url()));
    // A browser gives up for good if it is refused.
    page.wait_until("source.readyState === EventSource.CLOSED");
    assert_eq!(page.evaluate("[opened, tokens.length, Object.keys(values).length]"), json!([0, 0, 0]));
}
