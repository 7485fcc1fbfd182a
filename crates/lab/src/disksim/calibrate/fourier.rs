//! Sums of unit vectors, and the one Fourier transform that the search for angles needs.

use std::f64::consts::TAU;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A complex number.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Complex {
    /// The unit vector at so many turns.
    pub fn turn(turns: f64) -> Complex {
        let (im, re) = (TAU * turns).sin_cos();
        Complex { re, im }
    }

    /// The square of its length.
    pub fn square(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    /// Its direction in turns, from -0.5 to 0.5.
    pub fn direction(self) -> f64 {
        self.im.atan2(self.re) / TAU
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, o: Complex) -> Complex {
        Complex { re: self.re + o.re, im: self.im + o.im }
    }
}

impl AddAssign for Complex {
    fn add_assign(&mut self, o: Complex) {
        *self = *self + o;
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, o: Complex) -> Complex {
        Complex { re: self.re - o.re, im: self.im - o.im }
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, o: Complex) -> Complex {
        Complex { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
    }
}

/// Turns without whole ones, from -0.5 to 0.5.
pub fn wrapped(turns: f64) -> f64 {
    turns - turns.round()
}

/// A transform of a fixed length, a power of two.
pub struct Transform {
    /// Unit vectors of the first half turn, clockwise.
    roots: Vec<Complex>,
}

impl Transform {
    /// A transform of at least `length` numbers.
    pub fn of_at_least(length: usize) -> Transform {
        let length = length.next_power_of_two().max(2);
        let root = |i: usize| Complex::turn(-(i as f64) / length as f64);
        Transform { roots: (0..length / 2).map(root).collect() }
    }

    /// Its length.
    pub fn length(&self) -> usize {
        self.roots.len() * 2
    }

    /// Replaces numbers x by the sums over n of x(n) times the unit vector at -nk/length.
    pub fn apply(&self, x: &mut [Complex]) {
        let n = x.len();
        assert_eq!(n, self.length(), "the transform is of this length");
        let bits = n.trailing_zeros();
        for i in 0..n {
            let j = i.reverse_bits() >> (usize::BITS - bits);
            if i < j {
                x.swap(i, j);
            }
        }
        let mut half = 1;
        while half < n {
            let stride = n / (2 * half);
            for block in x.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let turned = *b * self.roots[k * stride];
                    (*a, *b) = (*a + turned, *a - turned);
                }
            }
            half *= 2;
        }
    }
}

/// Solves `matrix * x = right` for a symmetric positive matrix of a few rows; none if it is singular.
pub fn solve<const N: usize>(mut matrix: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    for i in 0..N {
        let row = matrix[i];
        let pivot = row[i];
        if pivot.abs() < 1e-12 {
            return None;
        }
        for j in i + 1..N {
            let factor = matrix[j][i] / pivot;
            for (to, from) in matrix[j][i..].iter_mut().zip(&row[i..]) {
                *to -= factor * from;
            }
            right[j] -= factor * right[i];
        }
    }
    for i in (0..N).rev() {
        for j in i + 1..N {
            right[i] -= matrix[i][j] * right[j];
        }
        right[i] /= matrix[i][i];
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_finds_a_slope() {
        let transform = Transform::of_at_least(200);
        assert_eq!(transform.length(), 256);
        let mut x: Vec<_> = (0..256).map(|n| Complex::turn(f64::from(n) * 37.0 / 256.0)).collect();
        transform.apply(&mut x);
        let best = (0..256).max_by(|&a, &b| x[a].square().total_cmp(&x[b].square())).unwrap();
        assert_eq!(best, 37);
        assert!((x[37].square().sqrt() - 256.0).abs() < 1e-9);
    }

    #[test]
    fn equations_are_solved() {
        let x = solve([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], [6.0, 10.0, 8.0]).unwrap();
        assert!(x.iter().zip([1.0, 2.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{x:?}");
        assert_eq!(solve([[0.0]], [1.0]), None);
    }
}
