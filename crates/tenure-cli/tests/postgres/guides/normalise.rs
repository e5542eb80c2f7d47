//! Replaces the parts of a line that differ from one run to the next.
//!
//! | in a line | becomes |
//! |---|---|
//! | an id of 16 letters and digits, or of 32 hexadecimal digits, or a UUID | `ID` |
//! | a time, such as `2026-11-16T00:50:55.529Z` | `TIME` |
//! | a duration, such as `1.9s`, `508ms`, `10m 00s` | `DURATION` |
//! | a number of three digits or more, such as a pid or a token; sizes, and the number of a user | `N` |
//! | the name of the machine and of the file system, the folders of the test | those of the page |
//! | the finding of doctor about sandboxes, which not every user may try | `FOUND` |
//! | columns of a table | two blanks apart |

/// Returns a line with the differing parts replaced.
pub fn normalise(line: &str) -> String {
    let mut words: Vec<String> = line.split_whitespace().map(normalise_word).collect();
    // `10m 00s` is one duration.
    let mut index = 1;
    while index < words.len() {
        let both = [&words[index - 1], &words[index]];
        let durations = both.iter().all(|word| word.starts_with("DURATION"));
        if durations && words[index - 1] == "DURATION" {
            words.remove(index - 1);
        } else {
            index += 1;
        }
    }
    for index in 1..words.len() {
        if words[index].starts_with("KiB") {
            words[index - 1] = "N".into();
        }
        if words[index - 1] == "uid" {
            words[index] = "N,".into();
        }
    }
    let joined = words.join(" ");
    // Not every user may try this.
    if let Some((before, _)) = joined.split_once("sandbox: ") {
        return format!("{before}sandbox: FOUND");
    }
    match joined.split_once("file system: ") {
        Some((before, after)) => {
            let rest = after.split_once(',').map_or("", |(_, rest)| rest);
            format!("{before}file system: FS,{rest}")
        }
        None => joined,
    }
}

/// Returns the ids in a line, in their order.
pub fn ids(line: &str) -> Vec<&str> {
    pieces(line).filter(|piece| is_id(piece)).collect()
}

fn normalise_word(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let length = piece_length(rest);
        let (piece, after) = rest.split_at(length);
        text.push_str(replaced(piece));
        rest = after;
    }
    text
}

fn replaced(piece: &str) -> &str {
    if is_id(piece) {
        "ID"
    } else if is_time(piece) {
        "TIME"
    } else if is_duration(piece) {
        "DURATION"
    } else if is_long_number(piece) {
        "N"
    } else {
        piece
    }
}

fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let length = piece_length(rest);
        let (piece, after) = rest.split_at_checked(length).filter(|_| length > 0)?;
        rest = after;
        Some(piece)
    })
}

/// Returns the length of the next piece: letters, digits and the signs inside of times and
/// durations, or one other character.
fn piece_length(text: &str) -> usize {
    let inside = |c: char| c.is_ascii_alphanumeric();
    let Some(first) = text.chars().next() else {
        return 0;
    };
    if !inside(first) {
        return first.len_utf8();
    }
    let mut lengths = TIMES.into_iter().map(str::len);
    if let Some(time) = lengths.find(|length| text.get(..*length).is_some_and(is_time)) {
        return time;
    }
    if text.get(..36).is_some_and(is_id) {
        return 36;
    }
    let mut length = text.find(|c| !inside(c)).unwrap_or(text.len());
    // This is the point of `1.9s`.
    let digits = text[..length].bytes().all(|byte| byte.is_ascii_digit());
    if digits && let Some(fraction) = text[length..].strip_prefix('.') {
        let more = fraction.find(|c| !inside(c)).unwrap_or(fraction.len());
        if is_duration(&text[..length + 1 + more]) {
            length += 1 + more;
        }
    }
    length
}

fn is_id(piece: &str) -> bool {
    let made_of = |allowed: fn(u8) -> bool| piece.bytes().all(allowed);
    match piece.len() {
        // An id never has one of these four letters, and a long word does.
        16 => made_of(|byte| {
            byte.is_ascii_digit() || byte.is_ascii_lowercase() && !b"ilou".contains(&byte)
        }),
        32 => made_of(|byte| byte.is_ascii_hexdigit()),
        36 => {
            piece.matches('-').count() == 4
                && made_of(|byte| byte == b'-' || byte.is_ascii_hexdigit())
        }
        _ => false,
    }
}

/// The two forms of a time: to the millisecond, and to the second.
const TIMES: [&str; 2] = ["0000-00-00T00:00:00.000Z", "0000-00-00T00:00:00Z"];

fn is_time(piece: &str) -> bool {
    let like = |shape: &str| {
        let mut pairs = piece.bytes().zip(shape.bytes());
        let fits = |(byte, like): (u8, u8)| byte == like || like == b'0' && byte.is_ascii_digit();
        piece.len() == shape.len() && pairs.all(fits)
    };
    TIMES.into_iter().any(like)
}

fn is_duration(piece: &str) -> bool {
    let units = ["ms", "s", "m", "h", "d"];
    units.iter().any(|unit| {
        piece.strip_suffix(unit).is_some_and(|number| {
            !number.is_empty()
                && number
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    })
}

fn is_long_number(piece: &str) -> bool {
    piece.len() >= 3 && !piece.starts_with('0') && piece.bytes().all(|byte| byte.is_ascii_digit())
}

#[test]
fn what_differs_is_taken_out_and_all_else_stays() {
    let line =
        "name:db  write  dbx56vc864442hz7  28157  5.6s, 10m 00s of 30s  2026-11-16T00:50:55.529Z";
    assert_eq!(
        normalise(line),
        "name:db write ID N DURATION, DURATION of DURATION TIME"
    );
    assert_eq!(ids(line), ["dbx56vc864442hz7"]);
    assert_eq!(
        normalise("dbyvzyxdeespshfe responsibilities"),
        "ID responsibilities"
    );
    let other = "token 7 of map:atlas/m3, 75 20576444c9e08f99";
    assert_eq!(normalise(other), "token 7 of map:atlas/m3, 75 ID");
}
