//! The report of `frazil advise`: one file with its data, charts (uPlot), scripts and styles. It
//! opens without a network.
//!
//! The page inserts text from the data only through `textContent`, so a trace's name cannot become
//! markup.

use serde_json::Value;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("report.css");
/// Plain functions first; last the script that runs when the page opens.
const SCRIPTS: [&str; 4] = [
    include_str!("../../assets/uplot/uPlot.iife.min.js"),
    include_str!("format.js"),
    include_str!("charts.js"),
    include_str!("report.js"),
];
const CHART_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");

/// The whole file. `data` is the document of `advise`.
pub(crate) fn page(data: &Value) -> String {
    // In the order of their places, each replaced once: data may contain the name of any other.
    let parts = [
        ("/* style */", [CHART_STYLE, STYLE].concat()),
        ("/* data */", embedded(data)),
        ("/* scripts */", SCRIPTS.join("\n")),
    ];
    let mut page = String::new();
    let mut rest = PAGE;
    for (place, part) in parts {
        let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
        page += before;
        page += &part;
        rest = after;
    }
    page + rest
}

/// JSON that an HTML parser cannot read as markup.
fn embedded(data: &Value) -> String {
    let escaped = |it: char| format!("\\u{:04x}", it as u32);
    let mut text = String::new();
    for it in data.to_string().chars() {
        match it {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text += &escaped(it),
            it => text.push(it),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_stay_names() {
        let name = "</script><script>alert(1)</script><!-- & \u{2028} /* scripts */";
        let page = page(&json!({ "name": name }));
        let (_, data) = page.split_once("type=\"application/json\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        assert!(!data.contains(['<', '>', '&', '\u{2028}']), "{data}");
        assert_eq!(serde_json::from_str::<Value>(data).unwrap(), json!({ "name": name }));
        assert!(
            page.contains("var uPlot=") && page.contains("--ink") && page.ends_with("</html>\n")
        );
    }

    #[test]
    fn nothing_is_fetched() {
        let page = page(&json!({}));
        for it in ["src=", "href=\"http", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(it), "{it}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}
