//! Chromium without a window, and one page in it, over its DevTools protocol. Elements are found as people find them: by a selector
//! and their words.
//!
//! The crates that drive Chromium bring a TLS stack with licences that `deny.toml` refuses, or an HTTP client and an asynchronous
//! runtime. The dozen commands that these tests need go through a pipe, and need neither.
#![allow(dead_code, reason = "each test takes what it needs")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Nothing that a page does takes so long, on the slowest machine.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Tells what goes wrong in a page, from its first moment.
const ERROR_COLLECTOR: &str = "window.wrong = [];
    addEventListener('error', (event) => wrong.push('error: ' + event.message));
    addEventListener('unhandledrejection', (event) => wrong.push('rejection: ' + event.reason));
    addEventListener('securitypolicyviolation', (event) => wrong.push('policy: ' + event.violatedDirective + ' ' + event.blockedURI + event.sample));";

/// Where Chromium is, if it is there.
pub fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|file| file.is_file())
}

/// The browser's process, its commands and their answers.
struct Pipe {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    last: u64,
}

impl Pipe {
    fn start(profile: &std::path::Path) -> Self {
        // The protocol's pipes are descriptors 3 and 4. The shell makes them of the standard ones.
        let shell = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", shell])
            .arg(chromium().expect("Chromium"))
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--disable-gpu",
                "--hide-scrollbars",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--no-first-run",
                "--disable-extensions",
                "--disable-background-networking",
                "--force-color-profile=srgb",
            ])
            // Root, as in containers, has no sandbox. The page is ours.
            .arg("--no-sandbox")
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut messages = BufReader::new(child.stdout.take().unwrap());
        let (told, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while messages.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let read: Value = serde_json::from_slice(&message).unwrap_or_default();
                message.clear();
                // Events are of no interest: these tests look at the page itself.
                if read.get("id").is_some() && told.send(read).is_err() {
                    return;
                }
            }
        });
        Pipe { child, commands, answers, last: 0 }
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        self.ask(session, method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// A command's result, or Chromium's error.
    fn ask(&mut self, session: Option<&str>, method: &str, params: &Value) -> Result<Value, Value> {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let mut bytes = serde_json::to_vec(&command).unwrap();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("Chromium takes commands");
        let answer = loop {
            let answer = self
                .answers
                .recv_timeout(PAGE_TIMEOUT)
                .unwrap_or_else(|error| panic!("{method}: Chromium does not answer: {error}"));
            if answer["id"] == self.last {
                break answer;
            }
        };
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }
}

/// A page in a browser of its own, which ends with it.
pub struct View {
    pipe: Mutex<Pipe>,
    session: String,
    profile: Option<tempfile::TempDir>,
}

impl Drop for View {
    fn drop(&mut self) {
        let pipe = self.pipe.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let close = b"{\"id\":0,\"method\":\"Browser.close\"}\0";
        let asked = pipe.commands.write_all(close);
        let start = Instant::now();
        // Asked, it ends with all of its processes; it is killed only if it does not.
        while asked.is_ok()
            && start.elapsed() < Duration::from_secs(10)
            && matches!(pipe.child.try_wait(), Ok(None))
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = pipe.child.kill();
        let _ = pipe.child.wait();
        if let Some(profile) = self.profile.take() {
            let _ = profile.close();
        }
    }
}

impl View {
    /// Opens an address in a window of this size, in pixels.
    pub fn open(url: &str, size: (u32, u32), dark: bool) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut pipe = Pipe::start(profile.path());
        let target = pipe.call(None, "Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session =
            pipe.call(None, "Target.attachToTarget", &attach)["sessionId"].as_str().unwrap().to_owned();
        let view = View { pipe: Mutex::new(pipe), session, profile: Some(profile) };
        view.size(size);
        view.scheme(dark);
        view.call("Page.enable", &json!({}));
        view.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": ERROR_COLLECTOR }));
        view.call("Page.navigate", &json!({ "url": url }));
        view.wait("document.readyState === 'complete' && location.href !== 'about:blank'");
        view
    }

    fn call(&self, method: &str, params: &Value) -> Value {
        self.pipe.lock().unwrap().call(Some(&self.session), method, params)
    }

    /// What an expression of JavaScript gives, as JSON.
    pub fn eval(&self, expression: &str) -> Value {
        self.try_eval(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// What an expression gives, or the error of a page that another one replaces meanwhile.
    fn try_eval(&self, expression: &str) -> Result<Value, Value> {
        let params = json!({ "expression": format!("({expression})"), "returnByValue": true });
        let told = self.pipe.lock().unwrap().ask(Some(&self.session), "Runtime.evaluate", &params)?;
        assert!(told.get("exceptionDetails").is_none(), "{expression}: {}", told["exceptionDetails"]);
        Ok(told["result"]["value"].clone())
    }

    /// The words of the first element that a selector finds; empty if there is none.
    pub fn words(&self, selector: &str) -> String {
        let found = self.eval(&format!("document.querySelector({selector:?})?.textContent ?? ''"));
        found.as_str().unwrap().to_owned()
    }

    pub fn attribute(&self, selector: &str, name: &str) -> String {
        let found = self.eval(&format!("document.querySelector({selector:?})?.getAttribute({name:?}) ?? ''"));
        found.as_str().unwrap().to_owned()
    }

    pub fn count(&self, selector: &str) -> u64 {
        self.eval(&format!("document.querySelectorAll({selector:?}).length")).as_u64().unwrap()
    }

    /// Waits until an expression is true. A page that is being left has no answer yet.
    pub fn wait(&self, expression: &str) {
        let start = Instant::now();
        while self.try_eval(&format!("!!({expression})")) != Ok(Value::Bool(true)) {
            if start.elapsed() > PAGE_TIMEOUT {
                let path = self.picture("failed");
                panic!("waited in vain for {expression}; wrong: {}; picture: {path:?}", self.eval("wrong"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until an element has these words somewhere.
    pub fn wait_words(&self, selector: &str, words: &str) {
        self.wait(&format!("document.querySelector({selector:?})?.textContent.includes({words:?})"));
    }

    /// Clicks on the element of a selector that has exactly these words, or whose label they are.
    pub fn click(&self, selector: &str, words: &str) {
        let found = format!(
            "[...document.querySelectorAll({selector:?})].find((each) => each.textContent.trim() === {words:?} || each.getAttribute('aria-label') === {words:?})"
        );
        self.wait(&format!("({found})?.getBoundingClientRect().width > 0"));
        let start = Instant::now();
        // A dialog that is closing may take a click.
        loop {
            self.eval(&format!(
                "(window.clicked = false, document.addEventListener('click', (event) => {{ window.clicked = ({found})?.contains(event.target) ?? false }}, {{ capture: true, once: true }}))"
            ));
            self.eval(&format!("({found})?.scrollIntoView({{ block: 'center', behavior: 'instant' }})"));
            let at = self.eval(&format!("(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])(({found}).getBoundingClientRect())"));
            for kind in ["mousePressed", "mouseReleased"] {
                let event =
                    json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
                self.call("Input.dispatchMouseEvent", &event);
            }
            if self.eval("window.clicked") == Value::Bool(true) {
                return;
            }
            assert!(start.elapsed() < PAGE_TIMEOUT, "{words} cannot be clicked");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Moves the mouse over an element: a share of its width and height from its upper left corner.
    pub fn hover(&self, selector: &str, right: f64, down: f64) {
        let at = self.eval(&format!(
            "(({{ x, y, width, height }}) => [x + width * {right}, y + height * {down}])(document.querySelector({selector:?}).getBoundingClientRect())"
        ));
        self.call("Input.dispatchMouseEvent", &json!({ "type": "mouseMoved", "x": at[0], "y": at[1] }));
    }

    /// Gives an element the keyboard.
    pub fn focus(&self, selector: &str) {
        self.wait(&format!("document.querySelector({selector:?})"));
        self.eval(&format!("document.querySelector({selector:?}).focus()"));
        self.wait(&format!("document.activeElement === document.querySelector({selector:?})"));
    }

    /// Presses keys by their names, one after the other.
    pub fn keys(&self, names: &[&str]) {
        for name in names {
            let (code, text) = match *name {
                "Enter" => (13, "\r"),
                "Escape" => (27, ""),
                "Tab" => (9, ""),
                "Home" => (36, ""),
                "End" => (35, ""),
                "ArrowLeft" => (37, ""),
                "ArrowUp" => (38, ""),
                "ArrowRight" => (39, ""),
                "ArrowDown" => (40, ""),
                " " => (32, " "),
                other => panic!("{other} has no code here"),
            };
            let mut event =
                json!({ "type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code });
            if !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", &event);
            event["type"] = "keyUp".into();
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Types into a field, in place of what was there.
    pub fn type_into(&self, selector: &str, text: &str) {
        self.focus(selector);
        self.eval(&format!("document.querySelector({selector:?}).select()"));
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// The width and height of what can be seen, in pixels.
    pub fn size(&self, (width, height): (u32, u32)) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1.0, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Whether the person likes dark colours.
    pub fn scheme(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }, { "name": "prefers-reduced-motion", "value": "reduce" }] });
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Puts a picture of what can be seen into `TRANCHE_PICTURES`, or into cargo's directory for tests. Returns where it is.
    pub fn picture(&self, name: &str) -> PathBuf {
        let dir = std::env::var_os("TRANCHE_PICTURES").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
        let path = PathBuf::from(dir).join(format!("live-view-{name}.png"));
        let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        std::fs::write(&path, base64(picture["data"].as_str().unwrap())).unwrap();
        path
    }

    /// Moves a part of the page to the upper edge.
    pub fn scroll_to(&self, selector: &str) {
        self.wait(&format!("document.querySelector({selector:?})"));
        self.eval(&format!(
            "document.querySelector({selector:?}).scrollIntoView({{ block: 'start', behavior: 'instant' }})"
        ));
    }

    /// Fails if the page broke its policy, asked anything of another machine, or had an error.
    pub fn assert_well(&self) {
        assert_eq!(self.eval("wrong"), serde_json::json!([]));
        let elsewhere = "performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith(location.origin + '/'))";
        assert_eq!(self.eval(elsewhere), serde_json::json!([]));
    }
}

/// Bytes in base64.
fn base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(|byte| digits.iter().position(|digit| *digit == byte).expect("a digit of base64") as u32);
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0, 0_u32);
    for value in values {
        held = held << 6 | value;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    bytes
}
