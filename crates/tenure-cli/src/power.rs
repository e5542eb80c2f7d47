//! Powers, without the library of mathematics.

/// Returns a power whose exponent is less than 2^31. The whole part of the exponent is multiplied
/// out, and the bits of the rest are square roots.
pub fn power(base: f64, exponent: f64) -> f64 {
    if exponent.is_nan() {
        return exponent;
    }
    let whole = exponent as i32;
    let mut rest = (exponent - f64::from(whole)).abs();
    let (mut power, mut root) = (1.0, base);
    // A double has no bits beyond these.
    for _ in 0..60 {
        (root, rest) = (root.sqrt(), rest * 2.0);
        if rest >= 1.0 {
            (power, rest) = (power * root, rest - 1.0);
        }
    }
    let power = if exponent < 0.0 { 1.0 / power } else { power };
    base.powi(whole) * power
}

#[cfg(test)]
mod tests {
    use super::power;

    #[test]
    fn powers_are_those_of_the_library() {
        for base in [0.9, 1e-3, 0.5, 1.0, 2.0, 17.25, 1e6] {
            for exponent in [0.0, 1.0, 7.0, 300.0, 0.5, 2.75, 1.0 / 3.0, -1.0, -2.3] {
                let known = f64::powf(base, exponent);
                let found = power(base, exponent);
                let is_near = found == known || (found - known).abs() <= known * 1e-12;
                assert!(is_near, "{base}^{exponent} is {known}, not {found}");
            }
        }
        assert_eq!(power(-2.0, 3.0), -8.0);
        assert!(power(-2.0, 0.5).is_nan() && power(2.0, f64::NAN).is_nan());
        assert_eq!(power(0.9, f64::INFINITY), 0.0);
    }
}
