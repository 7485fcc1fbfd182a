//! The program `tranche`: see the library of the same name.

fn main() -> std::process::ExitCode {
    tranche::main()
}
