//! Conflict markers: a merge of git leaves them in a file that both sides changed.

/// The lines between markers belong to one side, all others to both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Both,
    Ours,
    /// The lines that both sides began with, as some settings of git show them.
    Base,
    Theirs,
}

/// Returns the problem of a file with conflict markers, with the place of the first; `None` if it
/// holds none. No line of a JSON text begins like a marker.
pub(super) fn problem(bytes: &[u8]) -> Option<String> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = lines.position(|line| line.starts_with(b"<<<<<<< "))?;
    Some(format!(
        "it holds conflict markers of git, from line {} on",
        first + 1
    ))
}

/// Returns the file as each side had it, with the lines that git merged; `None` if the markers do
/// not fit together.
pub(super) fn sides(bytes: &[u8]) -> Option<[Vec<u8>; 2]> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut part = Part::Both;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let marker = line
            .get(..7)
            .filter(|_| matches!(line.get(7), None | Some(b' ' | b'\n' | b'\r')));
        part = match (marker, part) {
            (Some(b"<<<<<<<"), Part::Both) => Part::Ours,
            (Some(b"|||||||"), Part::Ours) => Part::Base,
            (Some(b"======="), Part::Ours | Part::Base) => Part::Theirs,
            (Some(b">>>>>>>"), Part::Theirs) => Part::Both,
            (Some(b"<<<<<<<" | b">>>>>>>"), _) => return None,
            _ => {
                if matches!(part, Part::Both | Part::Ours) {
                    ours.extend_from_slice(line);
                }
                if matches!(part, Part::Both | Part::Theirs) {
                    theirs.extend_from_slice(line);
                }
                continue;
            }
        };
    }
    (part == Part::Both).then_some([ours, theirs])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_the_file_as_it_had_it() {
        for base in ["", "||||||| 1a2b3c4\nbase\n"] {
            let text = format!("a\n<<<<<<< HEAD\nb\n{base}=======\nc\nd\n>>>>>>> theirs\ne");
            assert_eq!(
                problem(text.as_bytes()).unwrap(),
                "it holds conflict markers of git, from line 2 on"
            );
            assert_eq!(
                sides(text.as_bytes()).unwrap(),
                [b"a\nb\ne".to_vec(), b"a\nc\nd\ne".to_vec()]
            );
        }
        assert_eq!(problem(b"a\n <<<<<<< HEAD\n"), None);
        for torn in [
            "<<<<<<< HEAD\na\n",
            "<<<<<<< HEAD\na\n>>>>>>> x\n",
            "a\n>>>>>>> x\n",
        ] {
            assert_eq!(sides(torn.as_bytes()), None, "{torn}");
        }
    }
}
