//! Makes Rust of `orders.proto`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=orders.proto");
    let files = protox::compile(["orders.proto"], ["."])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
