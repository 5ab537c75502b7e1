use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Directory, Ladoga, Port, go_program, skip, wait_until};

/// A server that speaks the protocol of S3, keeps its objects as files, and checks signatures; from Go's module proxy.
const SERVER: &str = "github.com/versity/versitygw/cmd/versitygw";
const VERSION: &str = "v1.8.0";
const KEY: &str = "ladoga-tests";
const SECRET: &str = "of no use to anybody";
const BUCKET: &str = "lake";

/// A real S3 server with one bucket.
pub(crate) struct S3Server {
    program: PathBuf,
    process: Child,
    port: Port,
    directory: Directory,
}

impl S3Server {
    /// None if it cannot be had here, which is said.
    pub(crate) fn start() -> Option<S3Server> {
        let program = match go_program(SERVER, VERSION) {
            Ok(program) => program,
            Err(reason) => {
                skip(&format!("no S3 server: {reason}"));
                return None;
            }
        };
        let (port, directory) = (Port::claim(), Directory::new());
        for name in [format!("objects/{BUCKET}"), "metadata".to_owned()] {
            fs::create_dir_all(directory.path().join(name)).expect("a directory");
        }
        let process = launch(&program, &port, &directory);
        let mut server = S3Server { program, process, port, directory };
        server.wait();
        Some(server)
    }

    fn wait(&mut self) {
        let address = self.port.address();
        wait_until("an S3 server", || {
            assert!(self.process.try_wait().expect("a child").is_none(), "the server has ended");
            std::net::TcpStream::connect(address).is_ok()
        });
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(crate) fn start_again(&mut self) {
        self.process = launch(&self.program, &self.port, &self.directory);
        self.wait();
    }

    /// The file of an object.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.directory.path().join("objects").join(BUCKET).join(key)
    }

    /// A command that may use it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Ladoga {
        Ladoga::new(arguments)
            .env("AWS_ENDPOINT_URL", self.port.url())
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_REGION", "us-east-1")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn launch(program: &Path, port: &Port, directory: &Directory) -> Child {
    let log = fs::File::create(directory.path().join("log")).expect("a file for its log");
    Command::new(program)
        .args([
            "--port",
            &port.address().to_string(),
            "--access",
            KEY,
            "--secret",
            SECRET,
            "--quiet",
            "posix",
        ])
        .arg("--sidecar")
        .arg(directory.path().join("metadata"))
        .arg(directory.path().join("objects"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the same file"))
        .stderr(log)
        .spawn()
        .expect("the server starts")
}
