mod acquire;
mod cancel;
mod held;
mod many;
