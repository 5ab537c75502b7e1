/// What stands for what is not told.
const MASK: &str = "***";

/// URLs, or what was typed for one, without the names and the passwords in front of a host: messages end up in logs, and whoever typed a
/// wrong URL may have typed a right password.
///
/// A password that was not encoded may have any character in it, so all from a scheme to the last `@` is left out, also what may be a path.
pub fn masked(text: &str) -> String {
    let parts = text.split("://").map(|part| match part.rfind('@') {
        Some(at) => format!("{MASK}{}", &part[at..]),
        None => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_of_a_name_and_a_password() {
        assert_eq!(masked("http://me:secret@host:80/x"), "http://***@host:80/x");
        assert_eq!(
            masked("http://secret@host,https://me:s/e?c#r,e@t@[::1]:1"),
            "http://***@host,https://***@[::1]:1"
        );
        assert_eq!(masked("me:secret@host"), "***@host");
        for text in ["", "host:80", "http://host/x", "http://a,http://b", "ftp://"] {
            assert_eq!(masked(text), text);
        }
    }
}
