//! The page: files that are part of this program.

/// A file of the page.
pub(crate) struct Asset {
    /// Its address, as `/index.html`.
    pub path: &'static str,
    pub content_type: &'static str,
    pub bytes: &'static [u8],
}

/// All of them, by address. `build.rs` makes the table of `page/dist`.
const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

impl Asset {
    /// The file at an address.
    pub fn at(path: &str) -> Option<&'static Asset> {
        let path = if path == "/" { "/index.html" } else { path };
        ASSETS.iter().find(|asset| asset.path == path)
    }

    /// Whether its name changes when it does.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("/assets/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_and_it_has_no_inline_script_or_style() {
        let page = Asset::at("/").expect("page/dist has index.html");
        let text = std::str::from_utf8(page.bytes).unwrap();
        assert!(page.content_type.starts_with("text/html") && text.contains("<script"), "{text}");
        for script in text.split("<script").skip(1) {
            let (tag, rest) = script.split_once('>').unwrap();
            assert!(tag.contains("src=") && rest.starts_with("</script>"), "an inline script: {script}");
        }
        assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains("://"), "{text}");
        // What it names is there.
        for name in text.split(['"', '\'']).filter(|name| name.starts_with("/") || name.starts_with("./")) {
            let path = name.strip_prefix('.').unwrap_or(name);
            assert!(path == "/" || Asset::at(path).is_some(), "{name} is not there");
        }
        assert!(Asset::at("/other").is_none() && Asset::at("/../Cargo.toml").is_none());
    }
}
