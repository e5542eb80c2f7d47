//! Names that are safe as the name of a file.

/// Returns true for 1 to `bytes_max` letters, digits, dots, dashes and underscores that do not
/// begin with a dot.
pub fn is_plain_name(text: &str, bytes_max: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=bytes_max).contains(&text.len()) && !text.starts_with('.') && text.chars().all(is_plain)
}
