//! Text out of a file, in a page or a drawing.

use ladoga_lab::page::escape;

/// Without what XML does not allow, and what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    let is_allowed = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if is_allowed(c) { c } else { ' ' }).collect()
}

/// Text that can stand in HTML and in SVG.
pub(super) fn clean(text: &str) -> String {
    escape(&printable(text))
}

/// At most so many letters, the last of them dots if there are more.
pub(super) fn short(text: &str, letters_max: usize) -> String {
    if text.chars().count() <= letters_max {
        return text.to_owned();
    }
    text.chars().take(letters_max - 1).chain(['…']).collect()
}

/// Lines of a text that is wrapped at its blanks, four at most.
pub(super) fn lines(text: &str, letters_max: usize) -> Vec<String> {
    const LINES_MAX: usize = 4;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(short(word, letters_max)),
        }
    }
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        lines[LINES_MAX - 1].push('…');
    }
    lines
}

/// With a comma after every three digits of the numbers that are longer than a year.
pub(crate) fn with_commas(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        out.push_str(before);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && digits.len() > 4 && (digits.len() - index).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_file_does_no_harm() {
        assert_eq!(clean("<a\u{1}b>\n&\"\u{ffff}"), "&lt;a b&gt; &amp;&quot; ");
        assert_eq!((short("abcdef", 4), short("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
    }

    #[test]
    fn lines_are_wrapped_and_few() {
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("abcdefgh", 4), ["abc…"]);
        assert_eq!(lines("a b c d e f", 1), ["a", "b", "c", "d…"]);
        assert!(lines("", 5).is_empty());
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(
            with_commas("GET of 1000000 records in 2026, 12345"),
            "GET of 1,000,000 records in 2026, 12,345"
        );
        assert_eq!(with_commas("none"), "none");
    }
}
