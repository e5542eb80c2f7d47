//! The methods `with_…` of options: each sets one field and returns the options.

/// Writes such methods. Each line names a method, its argument, the field, and its new value.
///
/// ```
/// #[derive(Default)]
/// struct Options {
///     limit: Option<usize>,
/// }
///
/// impl Options {
///     tenure_core::setters! {
///         /// Reads at most this many.
///         with_limit(limit: usize) => limit = Some(limit);
///     }
/// }
///
/// assert_eq!(Options::default().with_limit(3).limit, Some(3));
/// ```
#[macro_export]
macro_rules! setters {
    ($($(#[$doc:meta])* $with:ident($value:ident: $type:ty) => $field:ident = $set:expr;)*) => {
        $(
            $(#[$doc])*
            pub fn $with(mut self, $value: $type) -> Self {
                self.$field = $set;
                self
            }
        )*
    };
}
