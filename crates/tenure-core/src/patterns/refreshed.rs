//! Refresh before check.

use std::future::Future;

/// Reads anew, and acts only on what is still to be done. Returns `None` if nothing is.
///
/// `reread` goes to the database, never to what the program has in memory, and returns what is to
/// be worked on, or `None`. Under the lock that all writers take, nobody can change it in between.
///
/// # Errors
///
/// Errors of the two functions.
pub async fn refreshed<S, T, E, R, A>(
    reread: impl FnOnce() -> R,
    act: impl FnOnce(S) -> A,
) -> Result<Option<T>, E>
where
    R: Future<Output = Result<Option<S>, E>>,
    A: Future<Output = Result<T, E>>,
{
    match reread().await? {
        None => Ok(None),
        Some(state) => act(state).await.map(Some),
    }
}
