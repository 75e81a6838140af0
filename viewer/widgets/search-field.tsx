interface SearchFieldProps {
  /** For screen readers; people see the placeholder. */
  readonly label: string;
  readonly placeholder?: string;
  readonly value: string;
  readonly onText: (text: string) => void;
}

/** A field that narrows a list while the user types. */
export function SearchField({ label, placeholder = label, value, onText }: SearchFieldProps) {
  return (
    <label class="search">
      <span class="away">{label}</span>
      <input
        type="search"
        placeholder={placeholder}
        value={value}
        onInput={(event) => onText(event.currentTarget.value)}
      />
    </label>
  );
}
