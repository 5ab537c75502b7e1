use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Connection, Directory, Ladoga, Launch, Response};

/// Each scope there is.
pub(crate) const SCOPES: [&str; 8] =
    ["read", "write", "delete", "range", "changes", "metrics", "profile", "admin"];

/// A file of tokens.
pub(crate) struct Tokens {
    directory: Directory,
    path: PathBuf,
}

impl Tokens {
    pub(crate) fn new() -> Tokens {
        let directory = Directory::new();
        let path = directory.path().join("tokens.toml");
        fs::write(&path, "# Nobody.\n").expect("a file of tokens");
        Tokens { directory, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path beside the file.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Ladoga {
        let (command, rest) = arguments.split_first().expect("a command");
        let path = self.path.to_str().expect("a path of text");
        Ladoga::new(["token", command, "--tokens", path].iter().chain(rest))
    }

    /// Makes a token; answers it as it was printed.
    #[track_caller]
    pub(crate) fn create(&self, id: &str, scopes: &str, rest: &[&str]) -> String {
        let arguments = [&["create", "--id", id, "--scopes", scopes], rest].concat();
        let outcome = self.command(&arguments).run();
        let warning = match rest.iter().find(|word| word.starts_with("2020-")) {
            Some(past) => {
                format!("warning: --expires is {past}, which has passed: nobody can use the token\n")
            }
            None => String::new(),
        };
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), &*warning), "{arguments:?}");
        outcome.text().trim_end().to_owned()
    }

    #[track_caller]
    pub(crate) fn revoke(&self, id: &str) {
        let outcome = self.command(&["revoke", "--id", id]).run();
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "revoke {id}");
    }

    pub(crate) fn list(&self) -> String {
        let outcome = self.command(&["list"]).run();
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""));
        outcome.text().to_owned()
    }

    /// A node that goes by them.
    pub(crate) fn launch(&self) -> Launch {
        Launch::new().flag("--tokens", self.path.to_str().expect("a path of text")).flag("--fsync", "never")
    }
}

/// A request as it is sent, with a token or without.
pub(crate) fn request(method: &str, target: &str, token: Option<&str>, body: Option<&[u8]>) -> Vec<u8> {
    let authorization = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
    let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{authorization}{length}\r\n");
    [head.as_bytes(), body.unwrap_or_default()].concat()
}

/// Sends a request and reads the answer.
pub(crate) fn ask(
    connection: &mut Connection,
    (method, target): (&str, &str),
    token: Option<&str>,
    body: Option<&[u8]>,
) -> Response {
    connection.send(request(method, target, token, body));
    if method == "HEAD" { connection.response_to_head() } else { connection.response() }
}
