use super::*;

const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn token(rest: &str) -> String {
    format!("[[token]]\nid = \"app\"\nsha256 = \"{HASH}\"\n{rest}\n")
}

fn parse(text: &str) -> Result<TokenFile, String> {
    TokenFile::parse(text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let text = token(
        "scopes = [\"read\", \"range\"]\nprefixes = [\"user:\", \"a \\\"b\\\"\\\\\\n\"]\n\
         expires = 2027-01-31T12:00:00Z\nrequests_per_second = 10\nbytes_per_second = 1000",
    );
    let file = parse(&text).expect("a file");
    let again = parse(&file.text()).expect("what was written");
    for file in [file, again] {
        let [token] = &file.tokens[..] else { panic!("one token: {file:?}") };
        assert_eq!(token.id.as_str(), "app");
        assert_eq!(token.hash.text(), HASH);
        assert_eq!(token.grant.scopes(), Scopes::of(&[Scope::Read, Scope::Range]));
        assert_eq!(token.grant.prefixes(), [Box::from(&b"user:"[..]), Box::from(&b"a \"b\"\\\n"[..])]);
        assert_eq!(token.expires_at_ms, Some(1_801_396_800_000));
        assert_eq!((token.requests, token.bytes), (Rate::per_second(10), Rate::per_second(1_000)));
    }
}

#[test]
fn little_is_enough_and_no_token_is_a_file_too() {
    let file = parse(&token("scopes = []")).expect("a token that may do nothing");
    let [token] = &file.tokens[..] else { panic!("one token") };
    assert_eq!(token.grant, Grant::new(Scopes::NONE, []));
    assert_eq!((token.expires_at_ms, token.requests, token.bytes), (None, None, None));
    assert!(parse(&TokenFile::default().text()).expect("a file without tokens").tokens.is_empty());
}

/// A token without its last line may do more.
#[test]
fn a_file_that_is_cut_off_within_a_line_is_none() {
    let text = token("scopes = [\"read\"]\nprefixes = [\"user:\"]");
    assert_eq!(TokenFile::parse(b"").err(), Some(FileError::Empty));
    for cut in 1..text.len() {
        let is_at_end_of_line = text.as_bytes()[cut - 1] == b'\n';
        assert!(is_at_end_of_line || parse(&text[..cut]).is_err(), "{}", &text[..cut]);
    }
    assert_eq!(TokenFile::parse(text.trim_end().as_bytes()).err(), Some(FileError::CutOff));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let twice = token("scopes = []").repeat(2);
    for (text, said) in [
        (token("scopes = [\"rea\"]"), "token 1: 'app': scopes has 'rea', expected some of read, write, "),
        (token("scopes = []\nprefixes = []"), "token 1: 'app': prefixes has 0 of them"),
        (token("scopes = []\nprefixes = [\"\"]"), "token 1: 'app': a prefix is empty or too long"),
        (token("scopes = []\nrequests_per_second = 0"), "token 1: 'app': requests_per_second is 0"),
        (token("scopes = []\nexpires = 2027-01-31"), "token 1: 'app': expires is no moment"),
        (token("scopes = []\nscope = 1"), "line 5: unknown field `scope`"),
        (token(""), "line 1: missing field `scopes`"),
        (token("scopes = [").replace("app", "other"), "line "),
        (twice, "token 2: the id 'app' is there twice"),
        (token("scopes = []").replace("app", "a b"), "token 1: id is 'a b', expected 1 to 64 letters"),
        (token("scopes = []").replace('9', "x"), "token 1: 'app': sha256 is no hash"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert!(error.starts_with(said), "{error}\nfor\n{text}");
    }
    let many: String = (0..=TOKENS_MAX)
        .map(|number| token("scopes = []").replace("\"app\"", &format!("\"t{number}\"")))
        .collect();
    assert!(parse(&many).expect_err("too many").contains("expected at most 1000"));
    assert_eq!(TokenFile::parse(&vec![b'#'; FILE_BYTES_MAX + 1]).err(), Some(FileError::TooLong));
    assert!(TokenFile::parse(b"\xff\n").is_err());
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let secret = "ldg_app_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for text in [
        token("scopes = []").replace(HASH, secret),
        token(&format!("scopes = [\"{secret}\"]")),
        token("scopes = []").replace("\"app\"", &format!("\"{secret} \"")),
        token(&format!("scopes = []\nrequests_per_second = \"{secret}\"")),
        token(&format!("scopes = []\n{secret} = 1")),
        token(&format!("scopes = {secret}")),
    ] {
        let error = parse(&text).expect_err(&text);
        assert!(!error.contains("AAAAAAAA"), "{error}");
    }
}
