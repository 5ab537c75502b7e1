//! Tells Rust code from its comments and literals, without parsing it.

/// One source in two views. Each has the lines and columns of the source, with blanks for what it leaves out.
#[derive(Debug)]
pub(super) struct Views {
    /// The code; of a string, a byte string or a character only the quotes are left.
    pub(super) code: String,
    /// The text of the comments, doc comments included.
    pub(super) comments: String,
}

/// Splits `source`. Whatever is not closed ends with the file: the compiler reports that better than we could.
pub(super) fn split(source: &str) -> Views {
    let mut lexer = Lexer {
        source: source.chars().collect(),
        at: 0,
        code: String::with_capacity(source.len()),
        comments: String::with_capacity(source.len()),
    };
    while lexer.at < lexer.source.len() {
        lexer.step();
    }
    Views { code: lexer.code, comments: lexer.comments }
}

pub(super) fn is_identifier_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[derive(Clone, Copy)]
enum View {
    Code,
    Comments,
    Neither,
}

struct Lexer {
    source: Vec<char>,
    at: usize,
    code: String,
    comments: String,
}

impl Lexer {
    fn step(&mut self) {
        match self.peek(0) {
            '/' if self.peek(1) == '/' => self.line_comment(),
            '/' if self.peek(1) == '*' => self.block_comment(),
            '"' => self.string(),
            '\'' => self.quote(),
            'r' if self.raw_hashes().is_some() => self.raw_string(),
            c if is_identifier_part(c) => self.word(),
            _ => self.take(1, View::Code),
        }
    }

    /// The character `ahead` of here; `'\0'` past the end, which no rule asks for.
    fn peek(&self, ahead: usize) -> char {
        self.source.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Moves over `count` characters, which are seen in `view` only. Line ends are in every view.
    fn take(&mut self, count: usize, view: View) {
        for _ in 0..count.min(self.source.len() - self.at) {
            let c = self.source[self.at];
            let blank = if c == '\n' { '\n' } else { ' ' };
            self.code.push(if matches!(view, View::Code) { c } else { blank });
            self.comments.push(if matches!(view, View::Comments) { c } else { blank });
            self.at += 1;
        }
    }

    fn line_comment(&mut self) {
        while self.at < self.source.len() && self.peek(0) != '\n' {
            self.take(1, View::Comments);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.source.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.take(1, View::Comments);
                    continue;
                }
            }
            self.take(2, View::Comments);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(1, View::Code);
        while self.at < self.source.len() && self.peek(0) != '"' {
            let length = if self.peek(0) == '\\' { 2 } else { 1 };
            self.take(length, View::Neither);
        }
        self.take(1, View::Code);
    }

    /// A character literal, or the start of a lifetime: `'a'` closes after one character, `'a` does not.
    fn quote(&mut self) {
        self.take(1, View::Code);
        if self.peek(0) == '\\' {
            self.take(2, View::Neither);
            while self.at < self.source.len() && self.peek(0) != '\'' {
                self.take(1, View::Neither);
            }
            self.take(1, View::Code);
        } else if self.peek(1) == '\'' {
            self.take(1, View::Neither);
            self.take(1, View::Code);
        }
    }

    /// The number of `#` between the `r` here and a quote; none if this starts no raw string.
    fn raw_hashes(&self) -> Option<usize> {
        let hashes = self.source[self.at + 1..].iter().take_while(|c| **c == '#').count();
        (self.peek(1 + hashes) == '"').then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().unwrap_or(0);
        self.take(2 + hashes, View::Code);
        while self.at < self.source.len() {
            let closes = self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#');
            if closes {
                self.take(1 + hashes, View::Code);
                return;
            }
            self.take(1, View::Neither);
        }
    }

    /// An identifier, a keyword, a number, or the prefix of a literal: in `br"…"` and `cr#"…"#` the `r` counts.
    fn word(&mut self) {
        if matches!(self.peek(0), 'b' | 'c') && self.peek(1) == 'r' {
            self.take(1, View::Code);
            if self.raw_hashes().is_some() {
                return self.raw_string();
            }
        }
        while is_identifier_part(self.peek(0)) {
            self.take(1, View::Code);
        }
    }
}

/// The code of a file without its tests.
pub(super) fn code_without_tests(text: &str) -> String {
    let mut code = split(text).code;
    while let Some(start) = code.find("#[cfg(test)]") {
        let after = start + "#[cfg(test)]".len();
        let end = item_end(&code, after);
        let blanked: String = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blanked);
    }
    code
}

/// The end of the item that begins at `from`: its semicolon, or the end of its braces.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[from..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return from + at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return from + at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> String {
        split(source).code
    }

    #[test]
    fn both_views_keep_the_lines_of_the_source() {
        let source = "a(); // one\n/* two\n /* nested */ three */ b(\"x\ny\");\n";
        let views = split(source);
        assert_eq!(views.code, "a();       \n      \n                       b(\" \n \");\n");
        assert_eq!(views.comments.lines().count(), source.lines().count());
        assert!(views.comments.contains("// one"));
        assert!(views.comments.contains("three */"));
        assert!(!views.comments.contains("b("));
    }

    #[test]
    fn strings_are_blank_in_both_views() {
        assert_eq!(code(r#"f("{ // \" }", b"{", c"{")"#), r#"f("         ", b" ", c" ")"#);
        assert_eq!(
            code("r#\"{ \" // }\"# + br\"{\" + cr##\"\"#{\"##"),
            "r#\"        \"# + br\" \" + cr##\"   \"##"
        );
        assert!(!split("\"// no comment\"").comments.contains("no"));
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        assert_eq!(code(r"f('{', '\'', '\u{7d}', b'}')"), r"f(' ', '  ', '      ', b' ')");
        assert_eq!(code("fn f<'a>(x: &'a str) -> &'a {"), "fn f<'a>(x: &'a str) -> &'a {");
        assert_eq!(code("'outer: loop { break 'outer; }"), "'outer: loop { break 'outer; }");
    }

    #[test]
    fn a_raw_identifier_is_no_raw_string() {
        assert_eq!(code("r#fn + bring + crate_r\"{\""), "r#fn + bring + crate_r\" \"");
    }

    #[test]
    fn what_does_not_close_ends_with_the_file() {
        for source in ["\"", "r#\"", "'\\", "/* /*", "b'", "br", "'", "\"\\"] {
            assert_eq!(code(source).chars().count(), source.chars().count(), "{source}");
        }
    }
}
