//! Randomness for keys and challenges.

/// Fills the bytes with randomness of the operating system that is fit for keys.
///
/// It aborts the process if the system gives none: without it, nothing could be kept secret.
pub fn fill_random(mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                eprintln!("no randomness from the operating system: {error}");
                std::process::abort();
            }
        }
    }
}
