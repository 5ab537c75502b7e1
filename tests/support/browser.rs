use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::{env, fs, thread};

use serde_json::{Value, json};

use super::{DEADLINE, Directory, skip_without, wait_until};

/// What the browser is called by those who package it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A pipe in place of a port: no other process can reach it, and no WebSocket is needed. The protocol uses the descriptors 3
/// and 4.
const OVER_PIPES: &str = r#"exec "$0" --remote-debugging-pipe "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
/// Without a screen, without a sandbox (which root may not have), and without asking anybody on the network for anything.
const FLAGS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
];

/// A real browser without a screen, driven by its own debugging protocol.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next_id: u64,
    /// Events that came while an answer was waited for, by session.
    events: HashMap<String, Vec<Value>>,
    _profile: Directory,
}

impl Browser {
    /// Starts a browser. `None`, and the reason is reported, if this machine has none: then the test is skipped.
    pub(crate) fn start() -> Option<Browser> {
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let Some(name) = NAMES.into_iter().find(is_there) else {
            skip_without("chromium", &format!("no browser, expected one of {NAMES:?}"));
            return None;
        };
        let profile = Directory::new();
        let mut command = Command::new("sh");
        command.args(["-c", OVER_PIPES, name]).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell that runs the browser");
        let commands = process.stdin.take().expect("a pipe was asked for");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe was asked for"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
                let parsed = serde_json::from_slice(message.strip_suffix(&[0]).unwrap_or(&message));
                if sender.send(parsed.expect("the browser speaks JSON")).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let events = HashMap::new();
        Some(Browser { process, commands, messages, next_id: 1, events, _profile: profile })
    }

    /// Opens a file in a window of this size, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path, width: u32, height: u32) -> Page<'_> {
        let path = file.canonicalize().expect("a file to open");
        self.open_url(&format!("file://{}", path.display()), width, height)
    }

    /// The same with what a server answers.
    pub(crate) fn open_url(&mut self, url: &str, width: u32, height: u32) -> Page<'_> {
        let target = self.call(None, "Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", &attach)["sessionId"].clone();
        let session = session.as_str().expect("a session").to_owned();
        let mut page = Page { browser: self, session };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        page.call("Emulation.setDeviceMetricsOverride", &size);
        page.call("Page.navigate", &json!({ "url": url }));
        let (protocol, _) = url.split_once("//").expect("a URL with its protocol");
        page.wait_until(&format!("document.readyState === 'complete' && location.protocol === '{protocol}'"));
        page
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("a browser that listens");
        loop {
            let mut message = self.messages.recv_timeout(DEADLINE).expect("an answer of the browser");
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method} failed: {}", message["error"]);
                return message["result"].take();
            }
            let of = message["sessionId"].as_str().unwrap_or_default().to_owned();
            self.events.entry(of).or_default().push(message);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The shell has become the browser.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A page that is open.
pub(crate) struct Page<'b> {
    browser: &'b mut Browser,
    session: String,
}

impl Page<'_> {
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &parameters);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression} failed in the page: {thrown}");
        answer["result"]["value"].take()
    }

    /// Asks an expression until it holds.
    pub(crate) fn wait_until(&mut self, expression: &str) {
        wait_until(expression, || self.evaluate(expression) == true);
    }

    /// The text of the first element that a selector finds.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!("document.querySelector({}).innerText", json!(selector)));
        text.as_str().expect("an element with text").to_owned()
    }

    /// Presses the mouse within an element, at these parts of its width and height from its upper left corner, moves it to
    /// another point of it, and releases it. A click is a drag to the point where it began.
    pub(crate) fn drag(&mut self, selector: &str, from: (f64, f64), to: (f64, f64)) {
        self.is_drawn();
        // Only what is within the window can be pressed.
        let script = format!(
            "(e => {{ const at = () => e.getBoundingClientRect(); \
             scrollBy(0, at().top + {} * at().height - innerHeight / 2); \
             const r = at(); return [r.left, r.top, r.width, r.height]; }})(document.querySelector({}))",
            from.1,
            json!(selector)
        );
        let area = self.evaluate(&script);
        let area: Vec<f64> = area.as_array().expect("an area").iter().filter_map(Value::as_f64).collect();
        let point = |(x, y): (f64, f64)| (area[0] + x * area[2], area[1] + y * area[3]);
        for (kind, (x, y)) in
            [("mouseMoved", from), ("mousePressed", from), ("mouseMoved", to), ("mouseReleased", to)]
                .map(|(kind, part)| (kind, point(part)))
        {
            let buttons = u8::from(kind != "mouseReleased");
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Waits until nothing is moved any more by what was done.
    fn is_drawn(&mut self) {
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))",
        );
    }

    /// Moves the mouse to a point of an element, at these parts of its width and height, without pressing it.
    pub(crate) fn hover(&mut self, selector: &str, (x, y): (f64, f64)) {
        // Scrolling hides the tooltip, and the event arrives a frame later.
        self.is_drawn();
        let script = format!(
            "(e => {{ const r = e.getBoundingClientRect(); return [r.left + {x} * r.width, r.top + {y} * r.height]; }})\
             (document.querySelector({}))",
            json!(selector)
        );
        let at = self.evaluate(&script);
        let event = json!({ "type": "mouseMoved", "x": at[0], "y": at[1], "button": "none", "buttons": 0 });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// Presses a key as a person does: `Enter`, `ArrowUp`, `Escape`, or a letter; with Shift, if it begins with `Shift+`.
    pub(crate) fn press(&mut self, key: &str) {
        let (key, modifiers) = key.strip_prefix("Shift+").map_or((key, 0), |key| (key, 8));
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            letter => u32::from(letter.to_ascii_uppercase().as_bytes()[0]),
        };
        let text = if key.len() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Moves the focus to an element, as Tab would in the end.
    pub(crate) fn focus(&mut self, selector: &str) {
        self.evaluate(&format!("document.querySelector({}).focus()", json!(selector)));
    }

    /// Empties an input, and types into it.
    pub(crate) fn write(&mut self, selector: &str, text: &str) {
        self.evaluate(&format!("document.querySelector({}).select()", json!(selector)));
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// A finger that is put down on an element, moved in small steps as fingers do, and lifted.
    pub(crate) fn swipe(&mut self, selector: &str, from: (f64, f64), to: (f64, f64)) {
        const STEPS: u32 = 12;
        let script = format!(
            "(e => {{ e.scrollIntoView({{ block: 'center' }}); const r = e.getBoundingClientRect(); \
             return [r.left, r.top, r.width, r.height]; }})(document.querySelector({}))",
            json!(selector)
        );
        let area = self.evaluate(&script);
        let area: Vec<f64> = area.as_array().expect("an area").iter().filter_map(Value::as_f64).collect();
        self.call("Emulation.setTouchEmulationEnabled", &json!({ "enabled": true }));
        for step in 0..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let (x, y) = (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1));
            let points = json!([{ "x": area[0] + x * area[2], "y": area[1] + y * area[3] }]);
            let kind = if step == 0 { "touchStart" } else { "touchMove" };
            self.call("Input.dispatchTouchEvent", &json!({ "type": kind, "touchPoints": points }));
        }
        self.call("Input.dispatchTouchEvent", &json!({ "type": "touchEnd", "touchPoints": [] }));
    }

    /// Prints the page on paper; the lengths of what is drawn on each sheet, in bytes. A sheet with nothing but a heading
    /// is short.
    pub(crate) fn print(&mut self, name: &str) -> Vec<usize> {
        let answer = self.call("Page.printToPDF", &json!({ "printBackground": true }));
        let document = decode_base64(answer["data"].as_str().expect("a document"));
        fs::write(folder_for_people().join(format!("{name}.pdf")), &document)
            .expect("a file for the document");
        sheets(&document)
    }

    /// Whether the person wants it dark.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Clicks into the middle of an element.
    pub(crate) fn click(&mut self, selector: &str) {
        self.drag(selector, (0.5, 0.5), (0.5, 0.5));
    }

    /// Whatever went wrong since the page was opened: exceptions, errors and warnings in the console, and every request
    /// for anything but the file itself.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // All events come before the answer to this.
        self.evaluate("0");
        let events = self.browser.events.get(&self.session).map_or(&[][..], Vec::as_slice);
        events.iter().filter_map(complaint).collect()
    }

    /// Keeps a screenshot of the whole page, for people to look at; answers its path.
    pub(crate) fn screenshot(&mut self, name: &str) -> PathBuf {
        let parameters = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.call("Page.captureScreenshot", &parameters);
        let file = folder_for_people().join(format!("{name}.png"));
        let picture = decode_base64(answer["data"].as_str().expect("a picture"));
        assert!(picture.starts_with(b"\x89PNG"), "this is no picture");
        fs::write(&file, picture).expect("a file for the picture");
        file
    }
}

fn folder_for_people() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    fs::create_dir_all(&folder).expect("a folder for pictures");
    folder
}

/// The length of the content stream of each page of a PDF, as this browser writes them: objects in plain text.
fn sheets(document: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(document);
    let length_of = |page: &str| {
        let object = page.split_once("/Contents ")?.1.split_whitespace().next()?;
        let (_, stream) = text.split_once(&format!("\n{object} 0 obj"))?;
        stream.split_once("/Length ")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let pages = text.split("/Type /Page\n").skip(1);
    pages.map(|page| length_of(page).expect("a page with its content")).collect()
}

fn complaint(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(format!("exception: {}", parameters["exceptionDetails"])),
        "Runtime.consoleAPICalled"
            if ["error", "warning", "assert"].iter().any(|kind| parameters["type"] == *kind) =>
        {
            Some(format!("console: {}", parameters["args"]))
        }
        "Log.entryAdded" => Some(format!("log: {}", parameters["entry"])),
        "Network.requestWillBeSent" => {
            let url = parameters["request"]["url"].as_str().unwrap_or_default();
            let is_own = ["file:", "data:", "about:", "blob:"].iter().any(|scheme| url.starts_with(scheme));
            (!is_own).then(|| format!("request: {url}"))
        }
        _ => None,
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    let sextet = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("no base64: {other}"),
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(sextet(*letter)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
