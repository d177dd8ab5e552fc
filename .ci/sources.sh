# Sourced by the checks: the project's files of some kinds, tracked or new, none ignored.
# sources <suffix>... prints paths relative to the root, one a line.
sources() {
  local patterns=()
  for suffix in "$@"; do patterns+=("*.$suffix"); done
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "${patterns[@]}" | sort -u |
      while read -r file; do [[ -e $file ]] && echo "$file"; done
  else
    local names=()
    for pattern in "${patterns[@]}"; do names+=(-o -name "$pattern"); done
    find . -path ./build -prune -o -type f \( "${names[@]:1}" \) -print | sed 's|^\./||' | sort
  fi
  return 0
}
