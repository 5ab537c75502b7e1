//! The pages in a real browser: nothing fails in the console, and a selection opens the right flame graph.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ladoga_profiler::{Format, Kind, Options, Profiler};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok())
}

#[inline(never)]
fn first_half(until: &AtomicU32) {
    while until.load(Ordering::Relaxed) == 0 {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn second_half(until: &AtomicU32) {
    while until.load(Ordering::Relaxed) <= 1 {
        std::hint::spin_loop();
    }
}

/// Runs a page in a headless browser and gives back its document, with what `script` put into its title.
#[expect(clippy::disallowed_methods, reason = "a test writes its page into a folder for temporary files")]
fn run(name: &str, page: &str, script: &str) -> Option<String> {
    let Some(browser) = browser() else {
        eprintln!("skipped: no browser among {BROWSERS:?}");
        return None;
    };
    let folder: PathBuf = [env!("CARGO_TARGET_TMPDIR"), name].iter().collect();
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("page.html");
    let errors = "<script>window.failures=[];addEventListener('error',e=>failures.push(e.message));\
                  console.error=m=>failures.push(m)</script>";
    let check = format!(
        "<script>try{{{script}}}catch(e){{failures.push(String(e))}}document.title=JSON.stringify({{failures,result:window.result}})</script>"
    );
    let page =
        page.replace("<head>", &format!("<head>{errors}")).replace("</body>", &format!("{check}</body>"));
    std::fs::write(&file, page).expect("a file");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("browser").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser");
    let document = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = document.split("<title>").nth(1)?.split("</title>").next()?.to_owned();
    Some(title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}

#[test]
fn a_selection_opens_its_flame_graph() {
    let phase = AtomicU32::new(0);
    let profile = std::thread::scope(|scope| {
        let session = Profiler::start(Kind::Cpu, Options::default()).expect("a session");
        scope.spawn(|| {
            first_half(&phase);
            second_half(&phase);
        });
        for _ in 0..2 {
            std::thread::sleep(Duration::from_secs(1));
            phase.fetch_add(1, Ordering::Relaxed);
        }
        session.finish().expect("a profile")
    });
    let page = String::from_utf8(profile.render(Format::Heatmap).expect("rendered")).expect("text");
    let script = "const p=window.ladogaProfile;const names=()=>p.flame.frames();\
        p.select('a',200,900);const a=names();p.select('b',1200,1900);const b=names();\
        window.result={a,b,heat:p.heat().reduce((x,y)=>x+y,0)}";
    let Some(title) = run("heatmap", &page, script) else { return };
    let found: serde_json::Value = serde_json::from_str(&title).expect(&title);
    assert_eq!(found["failures"], serde_json::json!([]), "{title}");
    assert_eq!(found["result"]["heat"].as_f64(), Some(profile.total_weight() as f64));
    let frame = |side: &str, name: &str| {
        let frames = found["result"][side].as_array().expect("frames").clone();
        frames.into_iter().find(|frame| frame["name"].as_str().is_some_and(|text| text.contains(name)))
    };
    assert!(frame("a", "first_half").is_some_and(|frame| frame["share"].as_f64() > Some(0.8)), "{title}");
    assert!(frame("a", "second_half").is_none(), "{title}");
    let second = frame("b", "second_half").expect("the second half");
    assert!(second["share"].as_f64() > Some(0.8) && second["before"].as_f64() == Some(0.0), "{title}");

    let page = String::from_utf8(profile.render(Format::Html).expect("rendered")).expect("text");
    let title = run("flame", &page, "window.result=window.ladogaProfile.flame.frames()").expect("a browser");
    assert!(title.contains("\"failures\":[]") && title.contains("first_half"), "{title}");
}
